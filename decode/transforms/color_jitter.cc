#include "decode/transforms/color_jitter.h"

#include <algorithm>
#include <array>

#include "decode/detail/colour.h"
#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

constexpr Purpose kColour{6};

double random_factor(double range, KeyedRng& rng) {
  const double low = std::max(0.0, 1.0 - range);
  return low + (1.0 + range - low) * static_cast<double>(rng.uniform());
}

class JitterStep final : public PixelStep {
 public:
  explicit JitterStep(const ColorJitter& options) : options_(options) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    const std::array<double, 3> factors = {random_factor(options_.brightness, rng),
                                           random_factor(options_.contrast, rng),
                                           random_factor(options_.saturation, rng)};
    std::array<int, 3> order = {0, 1, 2};
    shuffle(std::span<int>(order), rng);
    for (const int step : order) {
      if (step == 0) detail::change_brightness(pixels.levels, factors[0]);
      if (step == 1) detail::change_contrast(pixels.levels, pixels.channels, factors[1]);
      if (step == 2) detail::change_saturation(pixels.levels, pixels.channels, factors[2]);
    }
  }
  std::optional<Purpose> purpose() const override { return kColour; }

 private:
  ColorJitter options_;
};

}  // namespace

const ComponentName ColorJitter::kName = {
    "jitter", "ColorJitter",
    "Random brightness, contrast and saturation, each by a factor of 1 - x to 1 + x, in random "
    "order"};

void ColorJitter::fields(FieldList& field) {
  field("brightness", brightness, {.min = 0}, "x of the brightness");
  field("contrast", contrast, {.min = 0}, "x of the contrast");
  field("saturation", saturation, {.min = 0}, "x of the saturation");
}

std::unique_ptr<TransformStep> ColorJitter::make() const {
  return std::make_unique<JitterStep>(*this);
}

}  // namespace millrace::decode
