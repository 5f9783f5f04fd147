// Rows of a CSV table as samples: an image file each, found by a pattern of columns, and what other
// columns say of it.
//
//   CsvOptions options{.table = "train.csv", .path = "{Study}/{Series}/*{Sop}.jpg",
//                      .labels = {"pe_present", "chronic"}, .group_by = "Study"};
//
// Fields: the file ("jpg"); "cls", the class; "json", {"labels": [numbers in the order of the
// columns], "group": "...", COLUMN: value, ...}, as far as they are asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/create/image_file.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct CsvOptions {
  std::string table;
  /// What paths are relative to; empty: the table's folder.
  std::string root = {};
  /// The file of a row: columns in braces, and wild cards (tools/create/file_finder.h).
  std::string path = {};
  /// The key of a row; empty: the file's path below the root, without its suffix.
  std::string key = {};
  /// The class's column; integers, or names that the label map then lists.
  std::string class_column = {};
  /// Columns of numbers.
  std::vector<std::string> labels = {};
  /// More columns for the JSON, by their names: numbers where they are written as such.
  std::vector<std::string> columns = {};
  /// The column whose values folds keep together.
  std::string group_by = {};
  Recoding recoding = {};
};

/// Reads the table and finds every row's file. Throws: InvalidArgument (an unknown column, two rows
/// with one key), and with the row's line: NotFound, Corrupt.
std::unique_ptr<SampleSource> open_csv_source(const CsvOptions& options);

}  // namespace millrace::tools
