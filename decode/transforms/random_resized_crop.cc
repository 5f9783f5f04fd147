#include "decode/transforms/random_resized_crop.h"

#include <algorithm>
#include <cmath>

#include "decode/transform_step.h"
#include "decode/transforms/window.h"

namespace millrace::decode {
namespace {

constexpr int kWindowTries = 10;

class ResizedCropStep final : public GeometryStep {
 public:
  explicit ResizedCropStep(const RandomResizedCrop& options)
      : options_(options), log_ratio_{std::log(options.ratio.from), std::log(options.ratio.to)} {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    geometry.crop(random_window(geometry.width(), geometry.height(), rng));
    geometry.resize(options_.size.width, options_.size.height, drawn(options_.interpolation, rng));
  }
  std::optional<Extent> output() const override { return options_.size; }
  Scale scale() const override { return Scale::kWindows; }
  std::optional<Purpose> purpose() const override { return kCropPurpose; }

 private:
  Box random_window(int width, int height, KeyedRng& rng) const {
    const double area = static_cast<double>(width) * height;
    for (int i = 0; i < kWindowTries; ++i) {
      const double target = area * random_between(options_.area, rng);
      const double ratio = std::exp(random_between(log_ratio_, rng));
      const int w = round_to_int(std::sqrt(target * ratio));
      const int h = round_to_int(std::sqrt(target / ratio));
      if (w <= 0 || w > width || h <= 0 || h > height) continue;
      const int y = random_offset(height, h, rng);
      const int x = random_offset(width, w, rng);
      return {x, y, w, h};
    }
    return central_window(width, height);
  }

  // The largest centred window whose aspect ratio is within the range.
  Box central_window(int width, int height) const {
    const double ratio = static_cast<double>(width) / height;
    int w = width;
    int h = height;
    if (ratio < options_.ratio.from) h = std::min(height, round_to_int(w / options_.ratio.from));
    if (ratio > options_.ratio.to) w = std::min(width, round_to_int(h * options_.ratio.to));
    w = std::max(w, 1);
    h = std::max(h, 1);
    return {(width - w) / 2, (height - h) / 2, w, h};
  }

  RandomResizedCrop options_;
  Interval log_ratio_;
};

}  // namespace

const ComponentName RandomResizedCrop::kName = {
    "rrc", "RandomResizedCrop", "A window of random area and aspect ratio, resized"};

void RandomResizedCrop::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = 65535, .unit = "px"}, "Of the result");
  field.by_name();
  field("area", area, {.min = 0, .open_min = true}, "The window's share of the picture's area");
  field("ratio", ratio, {.min = 0, .open_min = true}, "The window's width / height");
  list_interpolation(field, interpolation);
}

std::unique_ptr<TransformStep> RandomResizedCrop::make() const {
  return std::make_unique<ResizedCropStep>(*this);
}

}  // namespace millrace::decode
