// Rows of a CSV table as samples: an image file each, found by a pattern of columns, with the
// values of other columns.
//
//   CsvOptions options{.table = "train.csv", .path = "{Study}/{Series}/*{Sop}.jpg",
//                      .labels = {"pe_present", "chronic"}, .group_by = "Study"};
//
// Fields: the file ("jpg"); "cls", the class; "json", {"labels": [numbers in the order of the
// columns], "group": "...", COLUMN: value, ...}, as far as requested.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/create/folder_fence.h"
#include "tools/create/image_file.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct CsvOptions {
  std::string table;
  /// What paths are relative to; empty: the table's folder.
  std::string root = {};
  /// The path of a row's file, with columns in braces and wild cards (tools/create/file_finder.h).
  std::string path = {};
  /// The key of a row; empty: the file's path below the root, without its suffix.
  std::string key = {};
  /// The column with the class: integers, or names, which the label map then lists.
  std::string class_column = {};
  /// Columns with numbers.
  std::vector<std::string> labels = {};
  /// Further columns for the JSON, by name; values that look like numbers become numbers.
  std::vector<std::string> columns = {};
  /// The column of groups, which folds keep together.
  std::string group_by = {};
  Recoding recoding = {};
  /// Whether a row may name a file that is not below `root`.
  Outside outside = Outside::kRefused;
  Log log = {};
};

/// Reads the table and finds every row's file. Throws: InvalidArgument (an unknown column, two rows
/// with the same key, a file outside the root); NotFound, Corrupt, with the row's line.
std::unique_ptr<SampleSource> open_csv_source(const CsvOptions& options);

}  // namespace millrace::tools
