// A failing disk, for programs run by a test: preloaded (LD_PRELOAD), it intercepts libc's calls
// that change files. MILLRACE_TEST_DISK selects the failure:
//
//   full:N    the disk is full after N bytes: write() is short, then fails with ENOSPC
//   fsync:N   the Nth fsync() fails with ENOSPC
//   kill:N    the process is killed (SIGKILL) before its Nth call of any of these
//   rename:N  it is killed before its Nth rename
//   stop:N    it is asked to end (SIGTERM) before its Nth rename, which then takes a while
//   list:N    the Nth folder that is listed fails with EIO
//   remove:N  the Nth file that is removed stays, with EPERM
//
// Standard streams are not affected.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace {

std::atomic<long> calls{0};
std::atomic<long> syncs{0};
std::atomic<long> renames{0};
std::atomic<long> lists{0};
std::atomic<long> removals{0};
std::atomic<long> bytes{0};

/// The number after `mode`; -1 if another mode is selected.
long asked(const char* mode) {
  const char* text = ::getenv("MILLRACE_TEST_DISK");
  const size_t length = ::strlen(mode);
  if (text == nullptr || ::strncmp(text, mode, length) != 0) return -1;
  return ::strtol(text + length, nullptr, 10);
}

void count_call() {
  if (++calls == asked("kill:")) ::raise(SIGKILL);
}

void count_rename() {
  count_call();
  const long nth = ++renames;
  if (nth == asked("rename:")) ::raise(SIGKILL);
  if (nth != asked("stop:")) return;
  ::kill(::getpid(), SIGTERM);
  ::usleep(200'000);
}

/// How many of `size` bytes still fit; -1 if the disk is full.
long admitted(long size) {
  const long limit = asked("full:");
  if (limit < 0) return size;
  const long before = bytes.fetch_add(size);
  if (before >= limit) return -1;
  return before + size <= limit ? size : limit - before;
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fd <= STDERR_FILENO) return real(fd, data, size);
  count_call();
  const long fits = admitted(static_cast<long>(size));
  if (fits >= 0) return real(fd, data, static_cast<size_t>(fits));
  errno = ENOSPC;
  return -1;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  count_call();
  const long fits = admitted(static_cast<long>(size));
  if (fits >= 0) return real(fd, data, static_cast<size_t>(fits), offset);
  errno = ENOSPC;
  return -1;
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  count_call();
  if (++syncs != asked("fsync:")) return real(fd);
  errno = ENOSPC;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  count_rename();
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  count_rename();
  return real(from_folder, from, to_folder, to, flags);
}

int ftruncate(int fd, off_t size) noexcept {
  static const auto real = next<int (*)(int, off_t)>("ftruncate");
  count_call();
  return real(fd, size);
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  count_call();
  return real(path);
}

int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  count_call();
  if (++removals != asked("remove:")) return real(path);
  errno = EPERM;
  return -1;
}

DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  if (++lists != asked("list:")) return real(path);
  errno = EIO;
  return nullptr;
}

DIR* fdopendir(int fd) {
  static const auto real = next<DIR* (*)(int)>("fdopendir");
  if (++lists != asked("list:")) return real(fd);
  errno = EIO;
  return nullptr;
}
}
