#include "pipeline/detail/boxes_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "decode/boxes.h"
#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

using decode::ObjectBox;

std::vector<FieldDecoder::Output> boxes_outputs(const BoxesField& field) {
  constexpr std::int64_t kMost = 1 << 20;
  require(field.most > 0 && field.most <= kMost,
          fmt::format("field {}: most must be from 1 to {}", field.name, kMost));
  return {{field.name, {decode::DType::kFloat32, {field.most, 4}}},
          {field.name + ".label", {decode::DType::kInt64, {field.most}}},
          {field.name + ".count", {decode::DType::kInt64, {}}}};
}

void check_boxes(const BoxesField& field) {
  require(field.min_share >= 0 && field.min_share <= 1,
          fmt::format("field {}: min_share must be from 0 to 1", field.name));
  require(field.min_side >= 0, fmt::format("field {}: min_side must not be below 0", field.name));
  require(field.classes >= 0, fmt::format("field {}: classes must not be below 0", field.name));
}

/// Leaves the `most` largest, in their order.
void keep_largest(std::vector<ObjectBox>& objects, std::size_t most) {
  if (objects.size() <= most) return;
  std::vector<std::size_t> order(objects.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return objects[a].bounds.area() > objects[b].bounds.area();
  });
  order.resize(most);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < most; ++i) objects[i] = objects[order[i]];
  objects.resize(most);
}

class BoxesDecoder final : public FieldDecoder {
 public:
  BoxesDecoder(const BoxesField& field, const BoxesPicture& picture)
      : FieldDecoder(boxes_outputs(field)),
        field_(field),
        suffixes_(field.suffixes),
        picture_suffixes_(suffixes_of(picture.field)),
        may_lack_picture_(picture.field.missing.has_value()),
        view_(picture.view),
        geometry_({.transforms = picture.field.transforms,
                   .apply_orientation = picture.field.apply_orientation,
                   .limits = picture.field.limits,
                   .tolerate_truncated = picture.field.tolerate_truncated,
                   .codecs = picture.field.codecs}) {
    check_boxes(field);
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    auto objects = seen_objects(sample, id);
    keep_largest(objects, static_cast<std::size_t>(field_.most));
    write(objects, slots);
    return decode::Tidiness::kTidy;
  }

 private:
  std::vector<ObjectBox> seen_objects(const wds::Sample& sample, decode::SampleId id) const {
    if (field_.may_lack && suffixes_.find_any(sample) == nullptr) return {};
    if (may_lack_picture_ && picture_suffixes_.find_any(sample) == nullptr) return {};
    const auto size = decode_member(sample, picture_suffixes_.find(sample),
                                    [this](const io::Bytes& data) { return geometry_.size(data); });
    id.view = view_;
    const decode::Geometry geometry = geometry_.choose(size, id);
    return decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      auto boxes = decode::decode_json_boxes(data, field_.keys);
      if (field_.scaled) decode::scale_boxes(boxes, size);
      return seen(boxes.objects, geometry);
    });
  }

  std::vector<ObjectBox> seen(const std::vector<ObjectBox>& objects,
                              const decode::Geometry& geometry) const {
    std::vector<ObjectBox> kept;
    for (const ObjectBox& object : objects) {
      check_label(object.label);
      const auto [bounds, share] = decode::seen_through(geometry, object.bounds);
      if (share > 0 && share >= field_.min_share &&
          std::min(bounds.width(), bounds.height()) >= field_.min_side)
        kept.push_back({.bounds = bounds, .label = object.label});
    }
    return kept;
  }

  void check_label(std::int64_t label) const {
    if (field_.classes == 0 || (label >= 0 && label < field_.classes)) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("label {} is not one of the {} classes", label, field_.classes));
  }

  void write(const std::vector<ObjectBox>& objects, Slots slots) const {
    const auto most = static_cast<std::size_t>(field_.most);
    std::vector<float> numbers(4 * most);
    std::vector<std::int64_t> labels(most, -1);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const auto values = decode::in_form(objects[i].bounds, field_.form);
      for (std::size_t k = 0; k < values.size(); ++k)
        numbers[4 * i + k] = static_cast<float>(values[k]);
      labels[i] = objects[i].label;
    }
    const auto count = static_cast<std::int64_t>(objects.size());
    std::memcpy(slots[0].data(), numbers.data(), slots[0].size());
    std::memcpy(slots[1].data(), labels.data(), slots[1].size());
    std::memcpy(slots[2].data(), &count, sizeof count);
  }

  BoxesField field_;
  Suffixes suffixes_;
  Suffixes picture_suffixes_;
  bool may_lack_picture_;
  std::uint64_t view_;
  decode::PictureGeometry geometry_;
};

}  // namespace

std::unique_ptr<const FieldDecoder> compile_boxes(const BoxesField& field,
                                                  const BoxesPicture& picture) {
  return std::make_unique<BoxesDecoder>(field, picture);
}

}  // namespace millrace::pipeline::detail
