#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "io/detail/file_source.h"
#include "io/detail/unique_fd.h"

namespace millrace::io {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(detail::UniqueFd fd, std::string path, std::uint64_t offset,
             std::optional<std::uint64_t> size, std::stop_token stop)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        position_(offset),
        size_(size),
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
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override { return size_; }
  const std::string& url() const override { return path_; }

 private:
  std::size_t took(std::size_t got) {
    position_ += got;
    // A file that shrinks while it is read must not look like one that ended.
    if (got == 0 && size_ && position_ < *size_) {
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
  std::optional<std::uint64_t> size_;
  std::stop_token stop_;
};

void write_fully(int fd, std::span<const std::byte> data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t wrote = ::write(fd, data.data(), data.size());
    if (wrote >= 0) {
      data = data.subspan(static_cast<std::size_t>(wrote));
    } else if (errno != EINTR) {
      throw_errno("write", path, errno);
    }
  }
}

void sync_folder(const std::string& folder) {
  const detail::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw_errno("open", folder, errno);
  // Some file systems cannot sync a folder and say EINVAL: then there is nothing to wait for.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("fsync", folder, errno);
}

class FileSink final : public ByteSink {
 public:
  FileSink(const std::string& path, const FileSinkOptions& options)
      : path_(path), folder_(std::filesystem::path(path).parent_path().string()) {
    if (folder_.empty()) folder_ = ".";
    replace_ = options.replace;
    refuse_existing();
    temporary_ = path + ".tmp-" + std::to_string(::getpid());
    fd_ = detail::UniqueFd(
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd_) throw_errno("create", temporary_, errno);
  }
  ~FileSink() override {
    if (!finished_ && fd_) ::unlink(temporary_.c_str());
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  void write(std::span<const std::byte> data) override {
    write_fully(fd_.get(), data, path_);
    position_ += data.size();
  }

  void finish() override {
    if (::fsync(fd_.get()) != 0) throw_errno("fsync", path_, errno);
    refuse_existing();
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_errno("rename to", path_, errno);
    finished_ = true;
    fd_.reset();
    sync_folder(folder_);
  }
  std::uint64_t position() const override { return position_; }

 private:
  void refuse_existing() const {
    if (replace_ == Replace::kNever && std::filesystem::exists(path_)) {
      throw Error(ErrorCode::kInvalidArgument, "file exists and may not be replaced",
                  {.url = path_});
    }
  }

  std::string path_;
  std::string folder_;
  std::string temporary_;
  Replace replace_ = Replace::kNever;
  detail::UniqueFd fd_;
  std::uint64_t position_ = 0;
  bool finished_ = false;
};

}  // namespace

namespace detail {

std::unique_ptr<ByteSource> open_file(const std::string& path, std::uint64_t offset,
                                      const std::stop_token& stop) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("stat", path, errno);
  if (S_ISDIR(status.st_mode)) throw_errno("read", path, EISDIR);
  std::optional<std::uint64_t> size;
  if (S_ISREG(status.st_mode)) size = static_cast<std::uint64_t>(status.st_size);
  if (offset > 0 && ::lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    throw_errno("seek in", path, errno);
  }
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<FileSource>(std::move(fd), path, offset, size, stop);
}

}  // namespace detail

std::unique_ptr<ByteSink> open_file_sink(const std::string& path, const FileSinkOptions& options) {
  return std::make_unique<FileSink>(path, options);
}

}  // namespace millrace::io
