#include "io/detail/files/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "io/detail/files/pipe_source.h"
#include "io/detail/files/unique_fd.h"
#include "io/local_file.h"

namespace millrace::io {
namespace {

/// What the kernel reads ahead unasked: of small files all.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{128} << 10;

class FileSource final : public ByteSource {
 public:
  FileSource(detail::UniqueFd fd, std::string path, std::uint64_t offset, std::uint64_t size,
             std::string version, std::stop_token stop)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        position_(offset),
        size_(size),
        version_(std::move(version)),
        stop_(std::move(stop)) {}

  std::size_t read(std::span<std::byte> into) override {
    for (;;) {
      if (stop_.stop_requested()) {
        throw Error(ErrorCode::kCancelled, "reading was stopped", {.url = path_});
      }
      const ssize_t got = ::read(fd_.get(), into.data(), into.size());
      if (got >= 0) return took(static_cast<std::size_t>(got));
      if (errno == EINTR) continue;
      fail(errno);
    }
  }
  bool skip(std::uint64_t bytes) override {
    if (bytes > size_ - std::min(size_, position_)) return false;
    if (::lseek(fd_.get(), static_cast<off_t>(bytes), SEEK_CUR) < 0) return false;
    position_ += bytes;
    return true;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override { return size_; }
  std::string version() const override { return version_; }
  const std::string& url() const override { return path_; }

 private:
  std::size_t took(std::size_t got) {
    position_ += got;
    // A file that shrinks while it is read must not look like one that has ended.
    if (got == 0 && position_ < size_) {
      throw Error(ErrorCode::kTruncated, "file became shorter while it was read",
                  {.url = path_, .offset = position_});
    }
    return got;
  }
  [[noreturn]] void fail(int error_number) {
    try {
      throw_errno("read", path_, error_number);
    } catch (Error& error) {
      error.annotate({.url = path_, .offset = position_});
      throw;
    }
  }

  detail::UniqueFd fd_;
  std::string path_;
  std::uint64_t position_;
  std::uint64_t size_;
  std::string version_;
  std::stop_token stop_;
};

std::string version_of(const struct stat& status) {
  return std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

struct Opened {
  detail::UniqueFd fd;
  struct stat status {};
};

Opened open_descriptor(const std::string& path) {
  // Without O_NONBLOCK opening a FIFO would block, uncancellable, until it has a writer.
  Opened file{.fd = detail::UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC))};
  if (!file.fd) throw_errno("open", path, errno);
  if (::fstat(file.fd.get(), &file.status) != 0) throw_errno("stat", path, errno);
  if (S_ISDIR(file.status.st_mode)) throw_errno("read", path, EISDIR);
  return file;
}

std::unique_ptr<ByteSource> source_of(Opened file, const std::string& path,
                                      const OpenOptions& options,
                                      const detail::StreamPatience& patience) {
  auto& [fd, status] = file;
  if (!S_ISREG(status.st_mode)) return detail::open_stream(std::move(fd), path, options, patience);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (options.offset > size) {
    throw Error(ErrorCode::kTruncated,
                "the file ends at " + std::to_string(size) + ", before the offset",
                {.url = path, .offset = options.offset});
  }
  if (options.offset > 0 && ::lseek(fd.get(), static_cast<off_t>(options.offset), SEEK_SET) < 0) {
    throw_errno("seek in", path, errno);
  }
  if (options.expected == 0 && size > kReadAheadBytes)
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<FileSource>(std::move(fd), path, options.offset, size, version_of(status),
                                      options.stop);
}

// A byte more is asked for than the file has: a read of less has met its end, so that most files
// take one.
std::size_t fill_from(int fd, std::span<std::byte> room, const std::string& path) {
  std::size_t used = 0;
  while (used < room.size()) {
    const ssize_t got = ::read(fd, room.data() + used, room.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path, errno);
    used += static_cast<std::size_t>(got);
    if (got == 0 || used + 1 == room.size()) break;
  }
  return used;
}

Bytes read_regular(const Opened& file, const std::string& path) {
  const auto size = static_cast<std::size_t>(file.status.st_size);
  auto owner = std::make_shared_for_overwrite<std::byte[]>(size + 1);
  const std::span<std::byte> room(owner.get(), size + 1);
  if (fill_from(file.fd.get(), room, path) != size)
    throw Error(ErrorCode::kIo, "the file changed while it was read", {.url = path});
  return {room.first(size), std::move(owner)};
}

// What `open` returns; its faults with the path.
template <typename Open>
auto with_path(const std::string& path, const Open& open) {
  try {
    return open();
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

}  // namespace

namespace detail {

std::unique_ptr<ByteSource> open_file(const std::string& path, const OpenOptions& options,
                                      const StreamPatience& patience) {
  return with_path(path, [&] { return source_of(open_descriptor(path), path, options, patience); });
}

}  // namespace detail

std::unique_ptr<ByteSource> open_local_file(const std::string& path) {
  return detail::open_file(path, {});
}

// A file of /proc has no size and yet bytes.
Bytes read_local_file(const std::string& path, std::size_t max_bytes) {
  return with_path(path, [&] {
    Opened file = open_descriptor(path);
    const auto size = static_cast<std::uint64_t>(file.status.st_size);
    if (S_ISREG(file.status.st_mode) && size > 0 && size <= max_bytes)
      return read_regular(file, path);
    return read_all(*source_of(std::move(file), path, {}, {}), max_bytes);
  });
}

}  // namespace millrace::io
