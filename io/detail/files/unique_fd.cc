#include "io/detail/files/unique_fd.h"

#include <algorithm>
#include <cerrno>

#include "io/base/error.h"

namespace millrace::io::detail {

void write_fully(int fd, std::span<const std::byte> data, const std::string& path) {
  // Linux writes at most 0x7ffff000 bytes per call.
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  while (!data.empty()) {
    const ssize_t wrote = ::write(fd, data.data(), std::min(data.size(), kMostAtOnce));
    if (wrote >= 0) {
      data = data.subspan(static_cast<std::size_t>(wrote));
    } else if (errno != EINTR) {
      throw_errno("write", path, errno);
    }
  }
}

}  // namespace millrace::io::detail
