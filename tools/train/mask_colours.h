// mask_colours: a table of the colours that masks are painted in, and the classes they stand for.
//
//   64 128 64	Animal          R G B NAME (CamVid's label_colors.txt)
//   name,r,g,b                  or a CSV, with a header that names its columns
//   Animal,64,128,64
//
// Classes are counted in the order in which their names first come; lines of one name are one
// class. Void, ignore and unlabelled are no class: their pixels are left out. `#` begins a comment
// line. `camvid` instead of a file is CamVid's own table, its 32 colours put together to the usual
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

/// `path`: a file's, or "camvid". `ignore` becomes the label of what is left out. Throws: NotFound,
/// Io; InvalidArgument, with the file and line, for what is no such table.
MaskColours read_mask_colours(const std::string& path, std::int64_t ignore);

}  // namespace millrace::tools
