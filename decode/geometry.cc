#include "decode/geometry.h"

#include <algorithm>
#include <cmath>

#include "io/base/error.h"

namespace millrace::decode {
namespace {

Stage whole(int width, int height) {
  const Box all{0, 0, width, height};
  return {.source = all, .width = width, .height = height, .window = all};
}

bool holds_window(const Stage& stage) {
  const Box& w = stage.window;
  return w.x >= 0 && w.y >= 0 && w.x + w.width <= stage.width && w.y + w.height <= stage.height;
}

// Whether growing the window to `box` would reveal pixels that an earlier crop removed.
bool uncovers(const Stage& stage, const Box& box) {
  const Box& w = stage.window;
  return (box.x < 0 && w.x > 0) || (box.y < 0 && w.y > 0) ||
         (box.x + box.width > w.width && w.x + w.width < stage.width) ||
         (box.y + box.height > w.height && w.y + w.height < stage.height);
}

/// Pixels of one dimension, [begin, end).
struct Side {
  int begin = 0;
  int end = 0;
};

/// What resizing to `size` makes of the part `content` of a side of `before` pixels: the pixels
/// whose filter (detail/axis.h) takes nothing from beside it.
Side resized(const Side& content, int before, int size) {
  if (before == size) return content;
  const double scale = static_cast<double>(before) / size;
  const double reach = std::max(scale, 1.0) - 0.5;
  Side side{0, size};
  if (content.begin > 0)
    while (side.begin < size && (side.begin + 0.5) * scale - reach < content.begin) ++side.begin;
  if (content.end < before)
    while (side.end > side.begin && (side.end - 0.5) * scale + reach > content.end) --side.end;
  return side;
}

/// The content of a stage's window, from that of its input.
Side shown(const Side& content, const Side& source, int size, const Side& window) {
  const int before = source.end - source.begin;
  const Side kept = {std::clamp(content.begin - source.begin, 0, before),
                     std::clamp(content.end - source.begin, 0, before)};
  const Side made = resized(kept, before, size);
  const int most = window.end - window.begin;
  const Side seen = {std::clamp(made.begin - window.begin, 0, most),
                     std::clamp(made.end - window.begin, 0, most)};
  return {seen.begin, std::max(seen.begin, seen.end)};
}

Side across(const Box& box) { return {box.x, box.x + box.width}; }
Side down(const Box& box) { return {box.y, box.y + box.height}; }

}  // namespace

Geometry::Geometry(int width, int height) { stages_[0] = whole(width, height); }

void Geometry::add_stage() {
  if (num_stages_ == kMaxStages) {
    throw Error(ErrorCode::kInvalidArgument, "more than 4 resizes of one image");
  }
  const Stage next = whole(width(), height());
  stages_[num_stages_++] = next;
}

Box Geometry::content() const {
  Side x = across(stages_[0].source);
  Side y = down(stages_[0].source);
  for (const Stage& stage : stages()) {
    x = shown(x, across(stage.source), stage.width, across(stage.window));
    y = shown(y, down(stage.source), stage.height, down(stage.window));
  }
  if (flipped_) x = {width() - x.end, width() - x.begin};
  if (flipped_vertically_) y = {height() - y.end, height() - y.begin};
  return {x.begin, y.begin, x.end - x.begin, y.end - y.begin};
}

void Geometry::crop(Box box) {
  if (flipped_) box.x = width() - box.x - box.width;
  if (flipped_vertically_) box.y = height() - box.y - box.height;
  if (uncovers(last(), box)) add_stage();
  Box& window = last().window;
  window = {window.x + box.x, window.y + box.y, box.width, box.height};
}

void Geometry::resize(int width, int height) {
  if (width == this->width() && height == this->height()) return;
  if (last().resizes() || !holds_window(last())) add_stage();
  Stage& stage = last();
  const Box& window = stage.window;
  stage.source = {stage.source.x + window.x, stage.source.y + window.y, window.width,
                  window.height};
  stage.width = width;
  stage.height = height;
  stage.window = {0, 0, width, height};
}

}  // namespace millrace::decode
