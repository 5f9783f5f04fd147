#include "decode/detail/geometry.h"

#include "io/base/error.h"

namespace millrace::decode::detail {
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

}  // namespace

Geometry::Geometry(int width, int height) { stages_[0] = whole(width, height); }

void Geometry::add_stage() {
  if (num_stages_ == kMaxStages) {
    throw Error(ErrorCode::kInvalidArgument, "more than 4 resizes of one image");
  }
  const Stage next = whole(width(), height());
  stages_[num_stages_++] = next;
}

void Geometry::crop(Box box) {
  if (flipped_) box.x = width() - box.x - box.width;
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

}  // namespace millrace::decode::detail
