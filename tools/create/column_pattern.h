// ColumnPattern: text with placeholders for columns: "{StudyInstanceUID}/{SeriesInstanceUID}".
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/create/csv_file.h"

namespace millrace::tools {

class ColumnPattern {
 public:
  /// Throws: InvalidArgument for a column that `table` does not have, and for an unclosed brace.
  ColumnPattern(const std::string& text, const CsvFile& table);

  std::string fill(const std::vector<std::string>& row) const;
  /// The same as a pattern for FileFinder: *, ? and [ are wild cards in the text and literal in
  /// columns.
  std::string fill_wild(const std::vector<std::string>& row) const;

 private:
  struct Part {
    std::string text;
    std::optional<std::size_t> column;
  };
  std::vector<Part> parts_;
};

}  // namespace millrace::tools
