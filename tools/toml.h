// A configuration file's entries, read with toml++: keys, with values as the command line takes
// them.
//
//   lr = 0.1                                          # lr: 0.1
//   betas = [0.9, 0.95]                               # betas: an array
//   optimizer = "sgd(0.1, momentum=0.9)"              # optimizer: a call
//   schedule = { name = "cosine", warmup = "1ep" }    # schedule: cosine(warmup=1ep)
//   [optimizer]                                       # without a name: optimizer.momentum: 0.8
//   momentum = 0.8
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
  std::string key = {};  ///< of a table without a name: with its members', "optimizer.momentum"
  std::vector<std::string> values = {};
  bool array = false;    ///< of plain values; an array of calls or tables is one text
  std::size_t line = 0;  ///< from 1
};

/// The entries in file order. Throws: InvalidArgument as "PATH:LINE: what is wrong", also for a
/// duplicate key, a date, and for more than kMaxTomlBytes.
std::vector<TomlEntry> read_toml(std::istream& input, const std::string& path);

}  // namespace millrace::tools
