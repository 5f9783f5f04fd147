#include "tools/view/sheet.h"

#include <algorithm>

#include "decode/limits.h"
#include "io/base/error.h"
#include "tools/view/picture.h"

namespace millrace::tools {
namespace {

constexpr int kGap = 4;         // between samples
constexpr int kPictureGap = 1;  // between the pictures of one
constexpr int kLeastSide = 96;
constexpr int kLargeCell = 200;
constexpr Colour kBackground = {32, 32, 32};
constexpr Colour kInk = {236, 236, 236};

struct Layout {
  int scale = 1;       ///< of pictures
  int text_scale = 1;  ///< of labels
  int width = 1;       ///< of a cell
  int height = 1;      ///< of its pictures
  int columns = 1;
  int rows = 1;

  int text_height() const { return (kGlyphHeight + 3) * text_scale; }
  int step_x() const { return width + kGap; }
  int step_y() const { return height + text_height() + kGap; }
  int sheet_width() const { return columns * step_x() + kGap; }
  int sheet_height() const { return rows * step_y() + kGap; }
};

int width_of(const Cell& cell, int scale) {
  int width = 0;
  for (const decode::Image& picture : cell.pictures) width += scale * picture.width + kPictureGap;
  return width - kPictureGap;
}

int largest_side(const std::vector<Cell>& cells) {
  int side = 1;
  for (const Cell& cell : cells)
    for (const decode::Image& picture : cell.pictures)
      side = std::max({side, picture.width, picture.height});
  return side;
}

Layout lay_out(const std::vector<Cell>& cells, int columns) {
  Layout layout{.columns = std::min(columns, static_cast<int>(cells.size()))};
  layout.scale = std::max(1, kLeastSide / largest_side(cells));
  for (const Cell& cell : cells) {
    layout.width = std::max(layout.width, width_of(cell, layout.scale));
    for (const decode::Image& picture : cell.pictures)
      layout.height = std::max(layout.height, picture.height * layout.scale);
  }
  layout.text_scale = layout.width >= kLargeCell ? 2 : 1;
  layout.rows = (static_cast<int>(cells.size()) + layout.columns - 1) / layout.columns;
  return layout;
}

void draw_cell(const Cell& cell, const Layout& layout, int x, int y, Picture& sheet) {
  int left = x + (layout.width - width_of(cell, layout.scale)) / 2;
  for (const decode::Image& picture : cell.pictures) {
    const int top = y + (layout.height - picture.height * layout.scale) / 2;
    sheet.put(picture, {.x = left, .y = top, .scale = layout.scale});
    left += picture.width * layout.scale + kPictureGap;
  }
  sheet.write(fitted(cell.label, layout.width, layout.text_scale),
              {.x = x, .y = y + layout.height + 2 * layout.text_scale, .scale = layout.text_scale},
              kInk);
}

}  // namespace

decode::Image draw_sheet(const std::vector<Cell>& cells, int columns) {
  const Layout layout = lay_out(cells, columns);
  const auto width = std::int64_t{layout.step_x()} * layout.columns + kGap;
  const auto height = std::int64_t{layout.step_y()} * layout.rows + kGap;
  if (width * height > decode::Limits().max_pixels)
    throw Error(ErrorCode::kInvalidArgument, "a sheet of " + std::to_string(width) + " x " +
                                                 std::to_string(height) +
                                                 " pixels: show fewer or smaller samples");
  Picture sheet(layout.sheet_width(), layout.sheet_height(), kBackground);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int column = static_cast<int>(i) % layout.columns;
    const int row = static_cast<int>(i) / layout.columns;
    draw_cell(cells[i], layout, kGap + column * layout.step_x(), kGap + row * layout.step_y(),
              sheet);
  }
  return sheet.image();
}

}  // namespace millrace::tools
