// UniqueFd: owns a POSIX file descriptor; and write(2) until everything is written.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace millrace::io::detail {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

/// Retries after short writes and EINTR. Throws: Io with `path` and errno's text.
void write_fully(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace millrace::io::detail
