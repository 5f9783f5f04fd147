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
Side resized(const Side& content, int before, int size, int filter) {
  if (before == size) return content;
  const double scale = static_cast<double>(before) / size;
  const double reach = std::max(scale, 1.0) * filter - 0.5;
  Side side{0, size};
  if (content.begin > 0)
    while (side.begin < size && (side.begin + 0.5) * scale - reach < content.begin) ++side.begin;
  if (content.end < before)
    while (side.end > side.begin && (side.end - 0.5) * scale + reach > content.end) --side.end;
  return side;
}

/// The content of a stage's window, from that of its input.
Side shown(const Side& content, const Side& source, int size, const Side& window, int filter) {
  const int before = source.end - source.begin;
  const Side kept = {std::clamp(content.begin - source.begin, 0, before),
                     std::clamp(content.end - source.begin, 0, before)};
  const Side made = resized(kept, before, size, filter);
  const int most = window.end - window.begin;
  const Side seen = {std::clamp(made.begin - window.begin, 0, most),
                     std::clamp(made.end - window.begin, 0, most)};
  return {seen.begin, std::max(seen.begin, seen.end)};
}

/// Left and right, or top and bottom, of a picture that is so wide or high.
Projection mirrored_x(int width) { return {{-1, 0, static_cast<double>(width), 0, 1, 0, 0, 0, 1}}; }
Projection mirrored_y(int height) {
  return {{1, 0, 0, 0, -1, static_cast<double>(height), 0, 0, 1}};
}

Side across(const Box& box) { return {box.x, box.x + box.width}; }
Side down(const Box& box) { return {box.y, box.y + box.height}; }

}  // namespace

Projection operator*(const Projection& outer, const Projection& inner) {
  Projection product{{}};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 3; ++column)
      for (std::size_t i = 0; i < 3; ++i)
        product.map[3 * row + column] += outer.map[3 * row + i] * inner.map[3 * i + column];
  return product;
}

const ValueType& value_type(const Border&) {
  static const EnumType<Border> type({{"constant", Border::kConstant},
                                      {"edge", Border::kEdge},
                                      {"reflect", Border::kReflect},
                                      {"symmetric", Border::kSymmetric}});
  return type;
}

Geometry::Geometry(int width, int height) { stages_[0] = whole(width, height); }

void Geometry::add_stage() {
  if (num_stages_ == kMaxStages) {
    throw Error(ErrorCode::kInvalidArgument, "more than 4 resizes of one image");
  }
  const Stage next = whole(width(), height());
  stages_[num_stages_++] = next;
}

Box Geometry::content(Interpolation own) const {
  Side x = across(stages_[0].source);
  Side y = down(stages_[0].source);
  for (const Stage& stage : stages()) {
    const int filter = filter_reach(stage.interpolation.value_or(own));
    x = shown(x, across(stage.source), stage.width, across(stage.window), filter);
    y = shown(y, down(stage.source), stage.height, down(stage.window), filter);
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

void Geometry::resize(int width, int height, std::optional<Interpolation> interpolation) {
  if (width == this->width() && height == this->height()) return;
  if (last().resizes() || last().sampling || !holds_window(last())) add_stage();
  Stage& stage = last();
  const Box& window = stage.window;
  stage.source = {stage.source.x + window.x, stage.source.y + window.y, window.width,
                  window.height};
  stage.width = width;
  stage.height = height;
  stage.window = {0, 0, width, height};
  stage.interpolation = interpolation;
}

bool Geometry::samples() const {
  return std::ranges::any_of(stages(), [](const Stage& one) { return one.sampling.has_value(); });
}

/// Whether the last stage may look where `sampling` says, in one pass.
bool Geometry::takes(const Sampling& sampling, std::optional<Interpolation> interpolation) const {
  const Stage& stage = last();
  if (!stage.sampling) return !stage.resizes() && holds_window(stage);
  return stage.window == Box{0, 0, stage.width, stage.height} &&
         stage.interpolation == interpolation && sampling.border == Border::kConstant &&
         stage.sampling->border == Border::kConstant && stage.sampling->fill == sampling.fill;
}

void Geometry::sample(const Sampling& sampling, int width, int height,
                      std::optional<Interpolation> interpolation) {
  Sampling shown = sampling;
  // What is seen is the stages' result, mirrored: the projection is seen through both mirrors.
  if (flipped_) shown.where = mirrored_x(this->width()) * shown.where * mirrored_x(width);
  if (flipped_vertically_)
    shown.where = mirrored_y(this->height()) * shown.where * mirrored_y(height);
  if (!takes(shown, interpolation)) add_stage();
  Stage& stage = last();
  const Box& window = stage.window;
  if (stage.sampling)
    shown.where = stage.sampling->where * shown.where;
  else
    stage.source = {stage.source.x + window.x, stage.source.y + window.y, window.width,
                    window.height};
  stage = {.source = stage.source,
           .width = width,
           .height = height,
           .window = {0, 0, width, height},
           .interpolation = interpolation,
           .sampling = shown};
}

void Geometry::pad(const Sides& sides, Border border, const Fill& fill) {
  const int width = this->width() + sides.left + sides.right;
  const int height = this->height() + sides.top + sides.bottom;
  const Sampling sampling = {
      .where = Projection::shift(-sides.left, -sides.top), .border = border, .fill = fill};
  if (sampling.is_plain()) return crop({-sides.left, -sides.top, width, height});
  sample(sampling, width, height, Interpolation::kNearest);
}

}  // namespace millrace::decode
