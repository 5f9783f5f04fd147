#include "decode/transforms/letterbox.h"

#include <algorithm>
#include <cstdint>

#include "decode/transform_step.h"
#include "decode/transforms/window.h"

namespace millrace::decode {
namespace {

/// Of a side if the other one becomes `size`.
int fitting_side(int size, int side_before, int other_before) {
  const double side = static_cast<double>(size) * side_before / other_before;
  return std::max(1, round_to_int(side));
}

class LetterboxStep final : public GeometryStep {
 public:
  explicit LetterboxStep(const Letterbox& options)
      : size_(options.size), interpolation_(options.interpolation) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    const int width = geometry.width();
    const int height = geometry.height();
    const auto how = drawn(interpolation_, rng);
    if (std::int64_t{width} * size_.height >= std::int64_t{height} * size_.width) {
      geometry.resize(size_.width, fitting_side(size_.width, height, width), how);
    } else {
      geometry.resize(fitting_side(size_.height, width, height), size_.height, how);
    }
    geometry.crop({-((size_.width - geometry.width()) / 2),
                   -((size_.height - geometry.height()) / 2), size_.width, size_.height});
  }
  std::optional<Extent> output() const override { return size_; }
  Scale scale() const override { return Scale::kSet; }

 private:
  Extent size_;
  std::optional<Interpolation> interpolation_;
};

}  // namespace

const ComponentName Letterbox::kName = {
    "letterbox", "Letterbox",
    "Resizes so that the picture just fits into a size, keeping the aspect ratio, and pads it"};

void Letterbox::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = 65535, .unit = "px"}, "Of the result");
  field.by_name();
  list_interpolation(field, interpolation);
}

std::unique_ptr<TransformStep> Letterbox::make() const {
  return std::make_unique<LetterboxStep>(*this);
}

}  // namespace millrace::decode
