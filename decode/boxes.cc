#include "decode/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "decode/detail/json_tree.h"
#include "decode/detail/transform_list.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/component/component_text.h"

namespace millrace::decode {
namespace {

using JsonTree = nlohmann::json;

const JsonTree& list_at(const JsonTree& document, const std::string& where) {
  const JsonTree& list = detail::value_at(document, where);
  if (list.is_array()) return list;
  throw Error(ErrorCode::kCorrupt, fmt::format("JSON value at \"{}\" is not a list", where));
}

/// Null where the JSON, or who reads it, has none.
const JsonTree* list_beside(const JsonTree& document, const std::string& where,
                            std::size_t num_boxes) {
  if (where.empty()) return nullptr;
  const JsonTree& list = list_at(document, where);
  if (list.size() == num_boxes) return &list;
  throw Error(ErrorCode::kCorrupt, fmt::format("JSON list \"{}\" has {} values for {} boxes", where,
                                               list.size(), num_boxes));
}

Bounds from_form(const std::array<double, 4>& numbers, BoxForm form) {
  const auto [a, b, c, d] = numbers;
  switch (form) {
    case BoxForm::kXywh:
      return {a, b, a + c, b + d};
    case BoxForm::kXyxy:
      return {a, b, c, d};
    case BoxForm::kCxcywh:
      return {a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d};
  }
  return {};
}

Bounds bounds_of(const JsonTree& list, BoxForm form, std::size_t index) {
  const auto damaged = [index](std::string_view what) {
    return Error(ErrorCode::kCorrupt, fmt::format("box {} {}", index, what));
  };
  std::array<double, 4> numbers = {};
  if (!list.is_array() || list.size() != numbers.size()) throw damaged("is not four numbers");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!list[i].is_number()) throw damaged("is not four numbers");
    numbers[i] = list[i].get<double>();
    // Far beyond any picture: differences and products of such numbers are still numbers.
    constexpr double kFarthest = 1e9;
    if (!(std::abs(numbers[i]) <= kFarthest)) throw damaged("is nowhere near a picture");
  }
  const Bounds bounds = from_form(numbers, form);
  if (bounds.width() < 0 || bounds.height() < 0) throw damaged("has a negative side");
  return bounds;
}

bool is_set(const JsonTree& value) {
  return value.is_boolean() ? value.get<bool>()
                            : json_integer<std::int64_t>(value, "a box's crowd") != 0;
}

std::optional<ImageSize> picture_size(const JsonTree& document) {
  if (!document.is_object() || !(document.contains("width") || document.contains("height")))
    return {};
  constexpr int kMost = 1 << 24;
  return ImageSize{
      .height = json_integer<int>(detail::value_at(document, "height"), "height", 1, kMost),
      .width = json_integer<int>(detail::value_at(document, "width"), "width", 1, kMost)};
}

/// Keeps what is inside of `frame`.
void cut(SeenBounds& seen, const Box& frame) {
  Bounds& bounds = seen.bounds;
  const double before = bounds.area();
  const double right = static_cast<double>(frame.x) + frame.width;
  const double bottom = static_cast<double>(frame.y) + frame.height;
  bounds = {std::clamp<double>(bounds.left, frame.x, right),
            std::clamp<double>(bounds.top, frame.y, bottom),
            std::clamp<double>(bounds.right, frame.x, right),
            std::clamp<double>(bounds.bottom, frame.y, bottom)};
  seen.share = before > 0 ? seen.share * bounds.area() / before : 0;
}

Bounds shifted(const Bounds& bounds, double x, double y) {
  return {bounds.left + x, bounds.top + y, bounds.right + x, bounds.bottom + y};
}

Bounds scaled_by(const Bounds& bounds, double x, double y) {
  return {bounds.left * x, bounds.top * y, bounds.right * x, bounds.bottom * y};
}

/// Up to a factor above 0, if there is one. Requires: the determinant is not 0.
Projection inverse(const Projection& of) {
  const auto& m = of.map;
  Projection result = {
      {m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
       m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
       m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]}};
  const double determinant = m[0] * result.map[0] + m[1] * result.map[3] + m[2] * result.map[6];
  if (determinant < 0)
    for (double& one : result.map) one = -one;
  return result;
}

/// Around its corners, where `to` moves them; nothing if one is behind the horizon.
SeenBounds hull(const SeenBounds& seen, const Projection& to) {
  const Bounds& from = seen.bounds;
  Bounds around;
  bool is_first = true;
  for (const double x : {from.left, from.right})
    for (const double y : {from.top, from.bottom}) {
      const double w = to.map[6] * x + to.map[7] * y + to.map[8];
      if (!(w > 0)) return {};
      const double at_x = (to.map[0] * x + to.map[1] * y + to.map[2]) / w;
      const double at_y = (to.map[3] * x + to.map[4] * y + to.map[5]) / w;
      if (is_first) around = {at_x, at_y, at_x, at_y};
      is_first = false;
      around = {std::min(around.left, at_x), std::min(around.top, at_y),
                std::max(around.right, at_x), std::max(around.bottom, at_y)};
    }
  return {around, seen.share};
}

/// In the window that the stage shows.
SeenBounds through_stage(SeenBounds seen, const Stage& stage) {
  cut(seen, stage.source);
  seen.bounds = shifted(seen.bounds, -stage.source.x, -stage.source.y);
  if (stage.sampling)
    seen = hull(seen, inverse(stage.sampling->where));
  else
    seen.bounds = scaled_by(seen.bounds, static_cast<double>(stage.width) / stage.source.width,
                            static_cast<double>(stage.height) / stage.source.height);
  cut(seen, {0, 0, stage.width, stage.height});
  cut(seen, stage.window);
  seen.bounds = shifted(seen.bounds, -stage.window.x, -stage.window.y);
  return seen;
}

}  // namespace

std::array<double, 4> in_form(const Bounds& bounds, BoxForm form) {
  switch (form) {
    case BoxForm::kXywh:
      return {bounds.left, bounds.top, bounds.width(), bounds.height()};
    case BoxForm::kXyxy:
      break;
    case BoxForm::kCxcywh:
      return {0.5 * (bounds.left + bounds.right), 0.5 * (bounds.top + bounds.bottom),
              bounds.width(), bounds.height()};
  }
  return {bounds.left, bounds.top, bounds.right, bounds.bottom};
}

ObjectBoxes decode_json_boxes(const io::Bytes& field, const BoxKeys& keys) {
  const JsonTree document = detail::json_tree(field);
  const JsonTree& boxes = list_at(document, keys.boxes);
  const JsonTree* labels = list_beside(document, keys.labels, boxes.size());
  const JsonTree* crowds =
      !keys.crowds.empty() && detail::find_value(document, keys.crowds) != nullptr
          ? list_beside(document, keys.crowds, boxes.size())
          : nullptr;
  ObjectBoxes found{.picture = picture_size(document)};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    ObjectBox object{.bounds = bounds_of(boxes[i], keys.form, i)};
    if (labels != nullptr)
      object.label = json_integer<std::int64_t>((*labels)[i], fmt::format("label {}", i));
    const bool is_crowd = crowds != nullptr && is_set((*crowds)[i]);
    if (!is_crowd && object.bounds.area() > 0) found.objects.push_back(object);
  }
  return found;
}

void scale_boxes(ObjectBoxes& boxes, const ImageSize& picture) {
  if (!boxes.picture || *boxes.picture == picture) return;
  const ImageSize& drawn = *boxes.picture;
  const double x = static_cast<double>(picture.width) / drawn.width;
  const double y = static_cast<double>(picture.height) / drawn.height;
  // Each side was rounded to whole pixels.
  if (std::abs(drawn.width * y - picture.width) > 1 &&
      std::abs(drawn.height * x - picture.height) > 1)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("boxes of a picture of {} x {} pixels beside one of {} x {}",
                            drawn.width, drawn.height, picture.width, picture.height));
  for (ObjectBox& object : boxes.objects) object.bounds = scaled_by(object.bounds, x, y);
  boxes.picture = picture;
}

SeenBounds seen_through(const Geometry& geometry, const Bounds& box) {
  SeenBounds seen{.bounds = box, .share = 1};
  for (const Stage& stage : geometry.stages()) seen = through_stage(seen, stage);
  Bounds& bounds = seen.bounds;
  if (geometry.flipped())
    bounds = {geometry.width() - bounds.right, bounds.top, geometry.width() - bounds.left,
              bounds.bottom};
  if (geometry.flipped_vertically())
    bounds = {bounds.left, geometry.height() - bounds.bottom, bounds.right,
              geometry.height() - bounds.top};
  return seen;
}

PictureGeometry::PictureGeometry(const ImageDecoderOptions& options)
    : reading_{.apply_orientation = options.apply_orientation,
               .limits = options.limits,
               .tolerate_truncated = options.tolerate_truncated,
               .codecs = options.codecs},
      transforms_(std::make_unique<const detail::TransformList>(options.transforms)) {
  for (const Transform& transform : options.transforms) {
    const auto step = transform.make();
    const auto* pixels = dynamic_cast<const PixelStep*>(step.get());
    require(pixels == nullptr || !pixels->moves(),
            "boxes cannot follow " + text(transform) + ", which moves a picture's pixels");
  }
}

PictureGeometry::~PictureGeometry() = default;
PictureGeometry::PictureGeometry(PictureGeometry&&) noexcept = default;
PictureGeometry& PictureGeometry::operator=(PictureGeometry&&) noexcept = default;

ImageSize PictureGeometry::size(const io::Bytes& encoded) const {
  return image_size(encoded, reading_);
}

Geometry PictureGeometry::choose(const ImageSize& size, const SampleId& id) const {
  detail::TransformList::Draws draws;
  transforms_->start(id, draws);
  return transforms_->choose(size.width, size.height, draws);
}

}  // namespace millrace::decode
