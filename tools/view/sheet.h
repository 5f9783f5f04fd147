// Sheet: a grid of samples, each its pictures side by side and a label below.
//
// Small pictures are enlarged by a whole factor, so that labels have room.
#pragma once

#include <string>
#include <vector>

#include "decode/image.h"

namespace millrace::tools {

struct Cell {
  std::vector<decode::Image> pictures;
  std::string label;
};

/// Requires: at least one cell, columns above 0. Throws: InvalidArgument when the sheet would be
/// larger than 64 Mpixel.
decode::Image draw_sheet(const std::vector<Cell>& cells, int columns);

}  // namespace millrace::tools
