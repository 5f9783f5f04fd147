// ClassLabels: maps the class names of a table or list to numbers.
//
// If all are integers ("7", " 7", "7.0") they are kept; otherwise the names are sorted by their
// bytes and numbered from 0, as class folders are. White space around a name is not part of it.
// Different texts never get one number in silence ("1" and "01", "cat" and " cat"): a fault.
//
//   ClassLabels labels;
//   for (row) labels.add(text);
//   labels.settle();
//   labels.number("cat");
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/base/log.h"

namespace millrace::tools {

class ClassLabels {
 public:
  /// Throws: Corrupt for an empty name, a negative number, and one that differs from another by
  /// white space; Exhausted beyond a million names.
  void add(const std::string& text);
  /// Assigns the numbers. Called once, after the last add(). Throws: Corrupt if two are one number.
  void settle();
  /// Requires: settle() was called, and `text` was added.
  std::uint64_t number(const std::string& text) const;
  /// The names in the order of their numbers; empty if the classes are numbers.
  std::vector<std::string> names() const;
  /// Says that numbers became names because others are none. Requires: settle() was called.
  void warn_if_mixed(const Log& log) const;

 private:
  /// Throws: Corrupt if `raw`, which is `name` with white space around it, is not as before.
  void check_same_space(const std::string& name, const std::string& raw) const;
  void check_numbers() const;

  std::map<std::string, std::uint64_t> names_;
  std::map<std::string, std::string> spaced_;  ///< the texts that have white space around a name
  std::uint64_t num_numbers_ = 0;
  std::uint64_t num_words_ = 0;  ///< above 0: all are names
};

}  // namespace millrace::tools
