#include "decode/transforms/color_jitter.h"

#include <algorithm>
#include <array>

#include "decode/detail/colour.h"
#include "decode/transform_step.h"
#include "decode/transforms/window.h"

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
    const bool turns = options_.hue > 0;
    const double turn = turns ? random_between({-options_.hue, options_.hue}, rng) : 0;
    std::array<int, 4> order = {0, 1, 2, 3};
    // Without hue three are shuffled: a seed draws what it drew before there was one.
    const std::span<int> steps = std::span(order).first(turns ? 4 : 3);
    shuffle(steps, rng);
    for (const int step : steps) {
      if (step == 0) detail::change_brightness(pixels.levels, factors[0]);
      if (step == 1) detail::change_contrast(pixels.levels, pixels.channels, factors[1]);
      if (step == 2) detail::change_saturation(pixels.levels, pixels.channels, factors[2]);
      if (step == 3) detail::change_hue(pixels.levels, pixels.channels, turn);
    }
  }
  std::optional<Purpose> purpose() const override { return kColour; }

 private:
  ColorJitter options_;
};

}  // namespace

const ComponentName ColorJitter::kName = {
    "jitter", "ColorJitter",
    "Random brightness, contrast and saturation, each by a factor of 1 - x to 1 + x, and hue, in "
    "random order"};

void ColorJitter::fields(FieldList& field) {
  field("brightness", brightness, {.min = 0}, "x of the brightness");
  field("contrast", contrast, {.min = 0}, "x of the contrast");
  field("saturation", saturation, {.min = 0}, "x of the saturation");
  field("hue", hue, {.min = 0, .max = 0.5}, "Hues turn by up to this share of the circle");
}

std::unique_ptr<TransformStep> ColorJitter::make() const {
  return std::make_unique<JitterStep>(*this);
}

}  // namespace millrace::decode
