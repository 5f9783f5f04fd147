// write_fully: write(2) until everything is written.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace millrace::io::detail {

/// Retries after short writes and EINTR. Throws: Io with `path` and errno's text.
void write_fully(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace millrace::io::detail
