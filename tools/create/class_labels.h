// ClassLabels: the classes that a table or a list names, as numbers.
//
// Where all are integers they stay as they are; otherwise the names are sorted by their bytes and
// numbered from 0, as class folders are.
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
  /// Numbers the names; called once, after the last add().
  void settle();
  /// Requires: settled, and `text` was added.
  std::uint64_t number(const std::string& text) const;
  /// In the order of their numbers; empty when the classes are numbers.
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::uint64_t> names_;
  bool all_numbers_ = true;  ///< so far
};

}  // namespace millrace::tools
