#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/file_lock.h"
#include "io/byte_sink.h"
#include "io/detail/files/unique_fd.h"
#include "io/opener.h"

namespace millrace::io {
namespace {

using detail::UniqueFd;

// Returns a temporary file that is ours while its lock is held. One that a killed process left is
// no longer locked and is taken over, so leftovers never pile up.
UniqueFd claim(const std::string& temporary) {
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  const bool created = static_cast<bool>(fd);
  if (!created && errno != EEXIST) throw_errno("create", temporary, errno);
  if (!created) fd = UniqueFd(::open(temporary.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return {};
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    // On a file system without locks, a file that we created is ours; an existing one may be
    // another process's.
    return created && errno != EWOULDBLOCK ? std::move(fd) : UniqueFd();
  }
  // Between open and lock its owner may have renamed it to its final name.
  if (!same_file(fd.get(), temporary)) return {};
  if (::ftruncate(fd.get(), 0) != 0) throw_errno("truncate", temporary, errno);
  return fd;
}

// Renames without replacing, atomically if the file system can. Returns -1 and sets errno if `to`
// exists.
int rename_to_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (::access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from.c_str(), to.c_str());
}

class FileSink final : public ByteSink {
 public:
  FileSink(const std::string& path, const FileSinkOptions& options)
      : path_(path), replace_(options.replace) {
    refuse_target();
    constexpr int kMostWriters = 1000;
    for (int i = 0; !fd_ && i < kMostWriters; ++i) {
      temporary_ = path + ".tmp-" + std::to_string(i);
      fd_ = claim(temporary_);
    }
    if (!fd_) throw_errno("create", temporary_, EEXIST);
  }
  ~FileSink() override {
    if (fd_) ::unlink(temporary_.c_str());
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  void write(std::span<const std::byte> data) override {
    MILLRACE_CHECK(fd_, "a sink is written to before finish()");
    refuse_after_failure();
    failed_ = true;
    detail::write_fully(fd_.get(), data, path_);
    failed_ = false;
    position_ += data.size();
  }

  void finish() override {
    MILLRACE_CHECK(fd_, "a sink is finished once");
    refuse_after_failure();
    failed_ = true;
    if (::fsync(fd_.get()) != 0) throw_errno("fsync", path_, errno);
    move_into_place();
    fd_.reset();  // released after the rename: nobody can take the file over in between
    sync_folder(std::filesystem::path(path_).parent_path().string());
  }
  std::uint64_t position() const override { return position_; }

 private:
  // Targets that can never become our file are rejected before any work is done.
  void refuse_target() const {
    check_local_path(path_);
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0) {
      if (errno != ENOENT) throw_errno("create", path_, errno);
      return;
    }
    if (S_ISDIR(status.st_mode)) throw_errno("create", path_, EISDIR);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kInvalidArgument, "not a regular file, so it cannot be replaced",
                  {.url = path_});
    }
    if (replace_ == Replace::kNever) refuse_existing();
  }
  [[noreturn]] void refuse_existing() const {
    throw Error(ErrorCode::kInvalidArgument, "file exists and may not be replaced", {.url = path_});
  }
  void refuse_after_failure() const {
    if (failed_) throw Error(ErrorCode::kIo, "an earlier write failed", {.url = path_});
  }
  void move_into_place() const {
    const bool never = replace_ == Replace::kNever;
    const int done =
        never ? rename_to_new(temporary_, path_) : ::rename(temporary_.c_str(), path_.c_str());
    if (done == 0) return;
    if (never && errno == EEXIST) refuse_existing();
    throw_errno("rename to", path_, errno);
  }

  std::string path_;
  std::string temporary_;
  Replace replace_;
  UniqueFd fd_;
  std::uint64_t position_ = 0;
  bool failed_ = false;
};

}  // namespace

void sync_folder(const std::string& folder) {
  const std::string name = folder.empty() ? "." : folder;
  const UniqueFd fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw_errno("open", name, errno);
  // Some file systems cannot sync a folder and return EINVAL: then there is nothing to wait for.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("fsync", name, errno);
}

void check_local_path(const std::string& path) {
  if (url_scheme(path).empty()) return;
  throw Error(ErrorCode::kInvalidArgument, "a URL is not a local path", {.url = path});
}

std::unique_ptr<ByteSink> open_file_sink(const std::string& path, const FileSinkOptions& options) {
  return std::make_unique<FileSink>(path, options);
}

}  // namespace millrace::io
