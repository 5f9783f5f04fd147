// mask_colours: a table that maps the colours of masks to classes.
//
//   64 128 64	Animal          R G B NAME (CamVid's label_colors.txt)
//   name,r,g,b                  or a CSV, with a header that names its columns
//   Animal,64,128,64
//
// Classes are numbered in the order in which their names first appear; lines with the same name are
// one class. Void, ignore and unlabelled are not classes: their pixels are excluded. `#` begins a
// comment line. `camvid` instead of a file is CamVid's table, its 32 colours merged into the usual
// 11 classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/class_mask.h"

namespace millrace::tools {

struct MaskColours {
  std::vector<decode::ClassColour> colours;
  std::vector<std::string> names;  ///< of the classes
};

/// `path`: of a file, or "camvid". `ignore`: the label of excluded pixels. Throws: NotFound, Io;
/// InvalidArgument, with the file and line, for a malformed table.
MaskColours read_mask_colours(const std::string& path, std::int64_t ignore);

}  // namespace millrace::tools
