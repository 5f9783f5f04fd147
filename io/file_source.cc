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

std::unique_ptr<ByteSource> open_there(const std::string& path, const OpenOptions& options,
                                       const detail::StreamPatience& patience) {
  // Without O_NONBLOCK opening a FIFO would block, uncancellable, until it has a writer.
  detail::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_errno("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("stat", path, errno);
  if (S_ISDIR(status.st_mode)) throw_errno("read", path, EISDIR);
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

}  // namespace

namespace detail {

std::unique_ptr<ByteSource> open_file(const std::string& path, const OpenOptions& options,
                                      const StreamPatience& patience) {
  try {
    return open_there(path, options, patience);
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

}  // namespace detail

std::unique_ptr<ByteSource> open_local_file(const std::string& path) {
  return detail::open_file(path, {});
}

}  // namespace millrace::io
