// write(2) until all is written.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace millrace::io::detail {

/// Goes on after short writes and EINTR. Throws: Io with `path` and errno's text.
void write_fully(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace millrace::io::detail
