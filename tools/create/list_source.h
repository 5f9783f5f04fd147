// A list of image files as samples: "PATH", or "PATH<TAB>LABEL" or "PATH LABEL", a file a line.
//
// With a TAB in the line the label is what follows it; otherwise what follows the last space, so a
// path with spaces needs the TAB. Labels are integers, or names that the label map then lists;
// either every line has one or none. Empty lines are passed over. A sample's key is its path
// without suffix; its fields are the file and the class number ("cls").
#pragma once

#include <memory>
#include <string>

#include "tools/create/image_file.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct ListOptions {
  std::string list;
  /// What paths are relative to; empty: the list's folder.
  std::string root = {};
  Recoding recoding = {};
};

/// Throws: InvalidArgument (two lines with one key), and with the line: NotFound, Corrupt.
std::unique_ptr<SampleSource> open_list_source(const ListOptions& options);

}  // namespace millrace::tools
