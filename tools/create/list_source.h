// A list of image files as samples, one per line: "PATH", "PATH<TAB>LABEL" or "PATH LABEL".
//
// The label is what follows the TAB, or else the last space, so a path with spaces needs the TAB.
// Labels are integers, or names, which the label map then lists; either all lines have one or none
// has. Empty lines are skipped. A sample's key is its path without suffix; its fields are the file
// and the class number ("cls").
#pragma once

#include <memory>
#include <string>

#include "io/base/log.h"
#include "tools/create/folder_fence.h"
#include "tools/create/image_file.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct ListSourceOptions {
  std::string list;
  /// What paths are relative to; empty: the list's folder.
  std::string root = {};
  Recoding recoding = {};
  /// Whether a line may name a file that is not below `root`.
  Outside outside = Outside::kRefused;
  Log log = {};
};

/// Throws: InvalidArgument (two lines with the same key, a file outside the root); NotFound,
/// Corrupt, with the line.
std::unique_ptr<SampleSource> open_list_source(const ListSourceOptions& options);

}  // namespace millrace::tools
