// Sheet: a grid of samples, each with its pictures side by side and a label below. Captions of the
// pictures are above the grid, a legend of the colours is below it.
//
// Small pictures are enlarged by an integer factor, so that labels have room.
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
  int columns = 0;                         ///< samples per row; 0: as many as fit on a screen
  std::vector<std::string> captions = {};  ///< of a sample's pictures, above each column
  std::vector<LegendEntry> legend = {};    ///< in lines, below the grid
};

/// Requires: at least one cell. Throws: InvalidArgument if the sheet would be larger than 64
/// megapixels.
decode::Image draw_sheet(const std::vector<Cell>& cells, const SheetOptions& options);

}  // namespace millrace::tools
