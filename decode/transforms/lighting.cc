#include "decode/transforms/lighting.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "decode/detail/colour.h"
#include "decode/transform_step.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

/// Of the colours of ImageNet's pictures, as shares of 1.
constexpr std::array<double, 3> kEigenvalues = {0.2175, 0.0188, 0.0045};
/// Red, green and blue, each in three directions.
constexpr std::array<std::array<double, 3>, 3> kDirections = {
    {{-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}}};

class LightingStep final : public PixelStep {
 public:
  explicit LightingStep(double std) : std_(std) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    std::array<double, 3> along;
    for (std::size_t i = 0; i < 3; ++i)
      along[i] = static_cast<double>(rng.normal()) * std_ * kEigenvalues[i];
    detail::ColourTables tables;
    for (std::size_t c = 0; c < 3; ++c) {
      const auto& to = kDirections[c];
      const double shift = 255 * (to[0] * along[0] + to[1] * along[1] + to[2] * along[2]);
      for (std::size_t level = 0; level < 256; ++level)
        tables[c][level] = static_cast<std::uint8_t>(
            std::clamp(std::nearbyint(static_cast<double>(level) + shift), 0.0, 255.0));
    }
    detail::apply_tables(pixels.levels, pixels.channels, tables);
  }
  void check_channels(int channels) const override {
    require(channels >= 3, "lighting is for pictures in colour");
  }

 private:
  double std_;
};

}  // namespace

const ComponentName Lighting::kName = {"lighting", "Lighting",
                                       "Shifts all colours as light does: AlexNet's PCA noise"};

void Lighting::fields(FieldList& field) {
  field("std", std, {.min = 0}, "Deviation of the factors of the principal components");
}

std::unique_ptr<TransformStep> Lighting::make() const {
  return std::make_unique<LightingStep>(std);
}

}  // namespace millrace::decode
