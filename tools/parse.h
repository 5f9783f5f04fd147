// Parsing of option values, with errors that name the option.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "decode/transforms.h"

namespace millrace::tools {

/// A whole number; 0 for any other text.
std::int64_t number_or_zero(std::string_view text);
/// Bytes: "3e9", "500M" (thousands), "2GiB" (1024s); at least 1. Throws: InvalidArgument.
std::uint64_t parse_bytes(const std::string& option, const std::string& text);
/// Pixels, 1 to 16384: "224", or "360x480", height before width. Throws: InvalidArgument.
decode::Extent parse_extent(const std::string& option, const std::string& text);
/// "224", or "360x480".
std::string extent_text(const decode::Extent& extent);
/// A duration: "90s", "30m", "12h", or "HH:MM:SS"; at least 1 s. Throws: InvalidArgument.
std::chrono::seconds parse_duration(const std::string& option, const std::string& text);

}  // namespace millrace::tools
