// The part of TOML that a configuration file needs: KEY = VALUE lines, whose values are numbers,
// booleans, strings, and flat arrays of those.
//
// Tables, nested arrays, multi-line strings and dates are rejected, with file and line.
//
// Buffers: at most kMaxTomlBytes.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

namespace millrace::tools {

inline constexpr std::size_t kMaxTomlBytes = std::size_t{1} << 20U;

struct TomlEntry {
  std::string key = {};
  std::vector<std::string> values = {};
  bool array = false;
  std::size_t line = 0;  ///< from 1
};

/// The entries in file order. Throws: InvalidArgument as "PATH:LINE: what is wrong", also for a
/// duplicate key, and for more than kMaxTomlBytes.
std::vector<TomlEntry> read_toml(std::istream& input, const std::string& path);

}  // namespace millrace::tools
