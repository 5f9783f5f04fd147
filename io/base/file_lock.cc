#include "io/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/base/error.h"

namespace millrace {

bool same_file(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

std::unique_ptr<FileLock> FileLock::try_take(const std::string& path) {
  // The previous holder may have deleted the file between our open and our lock: then try again.
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) throw_errno("create", path, errno);
    std::unique_ptr<FileLock> lock(new FileLock(path, fd));
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) return nullptr;
    if (!locked || lock->in_place()) return lock;
  }
}

FileLock::~FileLock() { ::close(fd_); }

bool FileLock::in_place() const { return same_file(fd_, path_); }

void FileLock::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw_errno("delete", path_, errno);
}

}  // namespace millrace
