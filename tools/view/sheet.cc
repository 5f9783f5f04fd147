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
constexpr int kMostScale = 8;  // to fit captions
constexpr int kLargeCell = 200;
constexpr int kScreen = 1600;
constexpr Colour kBackground = {32, 32, 32};
constexpr Colour kInk = {236, 236, 236};

struct Layout {
  int scale = 1;       ///< of pictures
  int text_scale = 1;  ///< of labels
  int caption_scale = 1;
  int width = 1;   ///< of a cell
  int height = 1;  ///< of its pictures
  int columns = 1;
  int rows = 1;
  bool captions = false;
  int legend_lines = 0;
  std::vector<Place> legend = {};  ///< of the entries' colours, from the legend's top on

  int text_height() const { return (kGlyphHeight + 3) * text_scale; }
  int step_x() const { return width + kGap; }
  int step_y() const { return height + text_height() + kGap; }
  int caption_height() const { return captions ? (kGlyphHeight + 3) * caption_scale : 0; }
  int top() const { return kGap + caption_height(); }
  int legend_top() const { return top() + rows * step_y(); }
  int legend_line() const { return (kGlyphHeight + 5) * text_scale; }
  int sheet_width() const { return columns * step_x() + kGap; }
  int sheet_height() const { return legend_top() + legend_lines * legend_line(); }
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

/// A square of the colour, a gap and the name.
int legend_width(const LegendEntry& entry, const Layout& layout) {
  return (kGlyphHeight + 3 + kAdvance * static_cast<int>(entry.name.size() + 2)) *
         layout.text_scale;
}

/// Entries in sequence, on as many lines as needed.
void lay_out_legend(const std::vector<LegendEntry>& legend, Layout& layout) {
  int x = kGap;
  layout.legend_lines = legend.empty() ? 0 : 1;
  for (const LegendEntry& entry : legend) {
    const int width = legend_width(entry, layout);
    if (x > kGap && x + width > layout.sheet_width()) {
      x = kGap;
      ++layout.legend_lines;
    }
    layout.legend.push_back({.x = x, .y = (layout.legend_lines - 1) * layout.legend_line()});
    x += width;
  }
}

/// Of the longest of `captions`, as text of scale 1.
int caption_width(const std::vector<std::string>& captions) {
  std::size_t longest = 0;
  for (const std::string& caption : captions) longest = std::max(longest, caption.size());
  return kAdvance * static_cast<int>(longest);
}

/// The narrowest picture, which all captions must fit.
int narrowest(const std::vector<Cell>& cells) {
  int width = cells.front().pictures.front().width;
  for (const Cell& cell : cells)
    for (const decode::Image& picture : cell.pictures) width = std::min(width, picture.width);
  return width;
}

Layout lay_out(const std::vector<Cell>& cells, const SheetOptions& options) {
  Layout layout{.captions = !options.captions.empty()};
  const int caption = caption_width(options.captions);
  const int narrow = narrowest(cells);
  layout.scale = std::max(1, kLeastSide / largest_side(cells));
  if (caption > narrow * layout.scale)
    layout.scale = std::min(kMostScale, (caption + narrow - 1) / narrow);
  for (const Cell& cell : cells) {
    layout.width = std::max(layout.width, width_of(cell, layout.scale));
    for (const decode::Image& picture : cell.pictures)
      layout.height = std::max(layout.height, picture.height * layout.scale);
  }
  layout.text_scale = layout.width >= kLargeCell ? 2 : 1;
  layout.caption_scale = 2 * caption <= narrow * layout.scale ? layout.text_scale : 1;
  const int wanted = options.columns > 0 ? options.columns : kScreen / layout.step_x();
  layout.columns = std::clamp(wanted, 1, static_cast<int>(cells.size()));
  layout.rows = (static_cast<int>(cells.size()) + layout.columns - 1) / layout.columns;
  lay_out_legend(options.legend, layout);
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

/// Above the pictures of the topmost cells, which have the layout of `like`.
void draw_captions(const std::vector<std::string>& captions, const Cell& like, const Layout& layout,
                   Picture& sheet) {
  for (int column = 0; column < layout.columns; ++column) {
    int left = kGap + column * layout.step_x() + (layout.width - width_of(like, layout.scale)) / 2;
    for (std::size_t i = 0; i < std::min(captions.size(), like.pictures.size()); ++i) {
      const int width = like.pictures[i].width * layout.scale;
      sheet.write(fitted(captions[i], width, layout.caption_scale),
                  {.x = left, .y = kGap, .scale = layout.caption_scale}, kInk);
      left += width + kPictureGap;
    }
  }
}

void draw_legend(const std::vector<LegendEntry>& legend, const Layout& layout, Picture& sheet) {
  const int scale = layout.text_scale;
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const int y = layout.legend_top() + layout.legend[i].y;
    sheet.square(layout.legend[i].x, y, kGlyphHeight * scale, legend[i].colour);
    sheet.write(legend[i].name,
                {.x = layout.legend[i].x + (kGlyphHeight + 3) * scale, .y = y, .scale = scale},
                kInk);
  }
}

}  // namespace

decode::Image draw_sheet(const std::vector<Cell>& cells, const SheetOptions& options) {
  const Layout layout = lay_out(cells, options);
  const auto width = std::int64_t{layout.step_x()} * layout.columns + kGap;
  const auto height = std::int64_t{layout.step_y()} * layout.rows + layout.top() +
                      std::int64_t{layout.legend_line()} * layout.legend_lines;
  if (width * height > decode::Limits().max_pixels)
    throw Error(ErrorCode::kInvalidArgument, "a sheet of " + std::to_string(width) + " x " +
                                                 std::to_string(height) +
                                                 " pixels: show fewer or smaller samples");
  Picture sheet(layout.sheet_width(), layout.sheet_height(), kBackground);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int column = static_cast<int>(i) % layout.columns;
    const int row = static_cast<int>(i) / layout.columns;
    draw_cell(cells[i], layout, kGap + column * layout.step_x(),
              layout.top() + row * layout.step_y(), sheet);
  }
  draw_captions(options.captions, cells.front(), layout, sheet);
  draw_legend(options.legend, layout, sheet);
  return sheet.image();
}

}  // namespace millrace::tools
