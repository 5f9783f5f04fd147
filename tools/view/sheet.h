// Sheet: a grid of samples, each its pictures side by side and a label below; above the grid what
// each picture is, below it what each colour stands for.
//
// Small pictures are enlarged by a whole factor, so that labels have room.
#pragma once

#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "decode/image.h"

namespace millrace::tools {

struct Cell {
  std::vector<decode::Image> pictures;
  std::string label;
};

struct LegendEntry {
  decode::RgbColour colour = {};
  std::string name;
};

struct SheetOptions {
  int columns = 0;  ///< samples beside each other; 0: as many as a screen is wide
  std::vector<std::string> captions = {};  ///< of a sample's pictures, over each column
  std::vector<LegendEntry> legend = {};    ///< in lines, under the grid
};

/// Requires: at least one cell. Throws: InvalidArgument when the sheet would be
/// larger than 64 Mpixel.
decode::Image draw_sheet(const std::vector<Cell>& cells, const SheetOptions& options);

}  // namespace millrace::tools
