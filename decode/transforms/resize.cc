#include "decode/transforms/resize.h"

#include <algorithm>
#include <cstdint>

#include "decode/transform_step.h"
#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr int kMaxResize = 65535;

/// Of a side if the other one becomes `size`. At least 1; torchvision fails on such thin images.
int scaled_side(int size, int side_before, int other_before) {
  const double side = static_cast<double>(size) * side_before / other_before;
  if (side > kMaxResize) throw Error(ErrorCode::kUnsupported, "the image is too narrow to resize");
  return std::max(1, static_cast<int>(side));
}

class ExactStep final : public GeometryStep {
 public:
  ExactStep(const Extent& size, std::optional<Interpolation> interpolation)
      : size_(size), interpolation_(interpolation) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    geometry.resize(size_.width, size_.height, drawn(interpolation_, rng));
  }
  std::optional<Extent> output() const override { return size_; }
  Scale scale() const override { return Scale::kSet; }

 private:
  Extent size_;
  std::optional<Interpolation> interpolation_;
};

class CoverStep final : public GeometryStep {
 public:
  CoverStep(const Extent& size, std::optional<Interpolation> interpolation)
      : size_(size), interpolation_(interpolation) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    const int width = geometry.width();
    const int height = geometry.height();
    const auto how = drawn(interpolation_, rng);
    if (std::int64_t{width} * size_.height <= std::int64_t{height} * size_.width) {
      geometry.resize(size_.width, scaled_side(size_.width, height, width), how);
    } else {
      geometry.resize(scaled_side(size_.height, width, height), size_.height, how);
    }
  }
  Scale scale() const override { return Scale::kSet; }

 private:
  Extent size_;
  std::optional<Interpolation> interpolation_;
};

}  // namespace

const ComponentName Resize::kName = {
    "resize", "Resize", "Resizes to height and width, or of one number the shorter side to it"};

void Resize::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = kMaxResize, .unit = "px"},
        "The shorter side, keeping the aspect ratio; or height and width");
  field.by_name();
  list_interpolation(field, interpolation);
}

std::unique_ptr<TransformStep> Resize::make() const {
  if (size.width == 0) return std::make_unique<CoverStep>(size.height, interpolation);
  return std::make_unique<ExactStep>(Extent(size.height, size.width), interpolation);
}

const ComponentName ResizeShort::kName = {"resize_short", "ResizeShort",
                                          "Resizes the shorter side, keeping the aspect ratio"};

void ResizeShort::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = kMaxResize, .unit = "px"}, "The shorter side");
  field.by_name();
  list_interpolation(field, interpolation);
}

std::unique_ptr<TransformStep> ResizeShort::make() const {
  return std::make_unique<CoverStep>(size, interpolation);
}

const ComponentName ResizeCover::kName = {
    "resize_cover", "ResizeCover",
    "Resizes so that the picture just covers a size, keeping the aspect ratio"};

void ResizeCover::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = kMaxResize, .unit = "px"},
        "One side becomes this one, the other is as long or longer");
  field.by_name();
  list_interpolation(field, interpolation);
}

std::unique_ptr<TransformStep> ResizeCover::make() const {
  return std::make_unique<CoverStep>(size, interpolation);
}

}  // namespace millrace::decode
