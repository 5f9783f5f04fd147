// ClassLabels: maps the class names of a table or list to numbers.
//
// If all are integers they are kept; otherwise the names are sorted by their bytes and numbered
// from 0, as class folders are.
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

namespace millrace::tools {

class ClassLabels {
 public:
  /// Throws: Corrupt for an empty name and a negative number, Exhausted beyond a million names.
  void add(const std::string& text);
  /// Assigns the numbers. Called once, after the last add().
  void settle();
  /// Requires: settle() was called, and `text` was added.
  std::uint64_t number(const std::string& text) const;
  /// The names in the order of their numbers; empty if the classes are numbers.
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::uint64_t> names_;
  bool all_numbers_ = true;  ///< so far
};

}  // namespace millrace::tools
