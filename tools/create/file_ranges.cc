#include "tools/create/file_ranges.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "tools/create/local_file.h"
#include "wds/unpacked_file.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

/// Closes what it owns.
class OwnFd {
 public:
  explicit OwnFd(int fd) : fd_(fd) {}
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;
  ~OwnFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::uint64_t size_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("read", path, errno);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::kInvalidArgument, "no regular file", {.url = path});
  return static_cast<std::uint64_t>(status.st_size);
}

std::shared_ptr<const OwnFd> open_plain(const std::string& path) {
  auto fd = std::make_shared<const OwnFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd->get() < 0) throw_errno("open", path, errno);
  return fd;
}

void check_range(std::uint64_t all, std::uint64_t offset, std::uint64_t size,
                 const std::string& path) {
  if (offset <= all && size <= all - offset) return;
  throw Error(ErrorCode::kTruncated,
              fmt::format("the file ends at {}, where {} bytes are missing", all,
                          size - (all - std::min(all, offset))),
              {.url = path, .offset = offset});
}

io::Bytes read_range(int fd, const std::string& path, std::uint64_t offset, std::uint64_t size) {
  check_range(size_of(fd, path), offset, size, path);
  auto owner = std::make_shared_for_overwrite<std::byte[]>(size);
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(fd, owner.get() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path, errno);
    if (got == 0) throw Error(ErrorCode::kIo, "the file changed while it was read", {.url = path});
    done += static_cast<std::uint64_t>(got);
  }
  const std::span<const std::byte> data(owner.get(), size);
  return {data, std::move(owner)};
}

/// A file that is gone when it is closed.
std::shared_ptr<const OwnFd> temporary_file() {
  std::string name = (fs::temp_directory_path() / "millrace-XXXXXX").string();
  auto fd = std::make_shared<const OwnFd>(::mkostemp(name.data(), O_CLOEXEC));
  if (fd->get() < 0) throw_errno("make", name, errno);
  ::unlink(name.c_str());
  return fd;
}

void append_to(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw_errno("unpack into a temporary file in", fs::temp_directory_path().string(), errno);
    data = data.subspan(static_cast<std::size_t>(put));
  }
}

std::unique_ptr<io::ByteSource> open_packed(const std::string& path) {
  return wds::open_unpacked_file(io::UrlOpener().open(local_url(path)));
}

}  // namespace

/// Where an unpacked file is: nowhere yet, in memory, or in a temporary file.
struct FileRanges::Contents {
  io::Bytes memory = {};
  bool in_memory = false;
  bool left = false;  ///< it was in memory once
  std::shared_ptr<const OwnFd> file = nullptr;

  bool there() const { return in_memory || file != nullptr; }
};

struct FileRanges::Packed {
  Mutex unpacking;    ///< of the thread that unpacks
  Contents contents;  ///< guarded by FileRanges::mutex_
};

FileRanges::FileRanges() : FileRanges(Limits()) {}
FileRanges::FileRanges(const Limits& limits) : limits_(limits) {}
FileRanges::~FileRanges() = default;

std::uint64_t FileRanges::size(const std::string& path, Packing packing) const {
  if (packing == Packing::kPlain) return size_of(open_plain(path)->get(), path);
  const Contents file = contents(path);
  return file.file ? size_of(file.file->get(), path) : file.memory.size();
}

io::Bytes FileRanges::read(const std::string& path, Packing packing, std::uint64_t offset,
                           std::uint64_t size) const {
  if (packing == Packing::kPlain) return read_range(open_plain(path)->get(), path, offset, size);
  const Contents file = contents(path);
  if (file.file) return read_range(file.file->get(), path, offset, size);
  check_range(file.memory.size(), offset, size, path);
  return file.memory.slice(offset, size);
}

FileRanges::Contents FileRanges::contents(const std::string& path) const {
  const std::shared_ptr<Packed> file = packed(path);
  if (Contents now = look(*file); now.there()) return now;
  const MutexLock unpacking(file->unpacking);
  const Contents before = look(*file);
  if (before.there()) return before;
  Contents now = unpack(path, *file, before);
  if (now.in_memory) keep(file);
  return now;
}

FileRanges::Contents FileRanges::unpack(const std::string& path, Packed& file,
                                        const Contents& before) const {
  Contents now = before;
  try {
    const auto source = open_packed(path);
    if (before.left) {
      now.file = temporary_file();
      std::vector<std::byte> buffer(std::size_t{256} * 1024);
      while (const std::size_t got = source->read(buffer))
        append_to(now.file->get(), std::span(buffer).first(got));
    } else {
      now.memory = io::read_all(*source, limits_.file_bytes);
      now.in_memory = true;
    }
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
  set(file, now);
  return now;
}

std::shared_ptr<FileRanges::Packed> FileRanges::packed(const std::string& path) const {
  const MutexLock lock(mutex_);
  auto& entry = files_[path];
  if (!entry) entry = std::make_shared<Packed>();
  return entry;
}

FileRanges::Contents FileRanges::look(const Packed& file) const {
  const MutexLock lock(mutex_);
  return file.contents;
}

void FileRanges::set(Packed& file, Contents contents) const {
  const MutexLock lock(mutex_);
  file.contents = std::move(contents);
}

void FileRanges::keep(const std::shared_ptr<Packed>& file) const {
  const MutexLock lock(mutex_);
  kept_.push_back(file);
  kept_bytes_ += file->contents.memory.size();
  while (kept_bytes_ > limits_.kept_bytes && kept_.size() > 1) {
    kept_bytes_ -= kept_.front()->contents.memory.size();
    kept_.front()->contents = {.left = true};
    kept_.pop_front();
  }
}

}  // namespace millrace::tools
