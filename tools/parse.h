// Texts of options to numbers, with errors that name the option.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace::tools {

/// "500": at least 0. Throws: InvalidArgument.
std::int64_t parse_count(const std::string& option, const std::string& text);
/// "0.01": within 0 and 1. Throws: InvalidArgument.
double parse_share(const std::string& option, const std::string& text);
/// Bytes: "3e9", "500M" (thousands), "2GiB" (1024s); at least 1. Throws: InvalidArgument.
std::uint64_t parse_bytes(const std::string& option, const std::string& text);
/// A length of time: "90s", "30m", "12h", or "HH:MM:SS"; at least 1 s. Throws: InvalidArgument.
std::chrono::seconds parse_duration(const std::string& option, const std::string& text);

}  // namespace millrace::tools
