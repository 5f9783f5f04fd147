// Base64 (RFC 4648), as signatures and checksums are sent.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

std::string base64(std::string_view bytes);
/// With the alphabet for urls, and without padding.
std::string base64_url(std::string_view bytes);

}  // namespace millrace
