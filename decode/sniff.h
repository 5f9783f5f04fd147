// describe_content: the content type by the first bytes, never by a file's name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace millrace::decode {

/// For messages: "a GIF image", "an HTML page", "a git-LFS pointer", "unknown data (7b 22 61 20)".
std::string describe_content(std::span<const std::byte> data);

}  // namespace millrace::decode
