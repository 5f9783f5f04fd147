#include "decode/transforms/center_crop.h"

#include <cmath>

#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

int centred(int extent, int size) {
  if (size > extent) return -((size - extent) / 2);
  return static_cast<int>(std::nearbyint((extent - size) / 2.0));  // as Python's round()
}

class CenterCropStep final : public GeometryStep {
 public:
  explicit CenterCropStep(const Extent& size) : size_(size) {}

  void choose(Geometry& geometry, KeyedRng& /*rng*/) const override {
    geometry.crop({centred(geometry.width(), size_.width), centred(geometry.height(), size_.height),
                   size_.width, size_.height});
  }
  std::optional<Extent> output() const override { return size_; }

 private:
  Extent size_;
};

}  // namespace

const ComponentName CenterCrop::kName = {
    "ccrop", "CenterCrop", "The middle of the picture, padded with zeros where it is smaller"};

void CenterCrop::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = 65535, .unit = "px"}, "Of the result");
}

std::unique_ptr<TransformStep> CenterCrop::make() const {
  return std::make_unique<CenterCropStep>(size);
}

}  // namespace millrace::decode
