#include "decode/transforms/random_erasing.h"

#include <cmath>
#include <optional>

#include "decode/transform_step.h"
#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr int kErasingTries = 10;

class ErasingStep final : public PixelStep {
 public:
  explicit ErasingStep(RandomErasing options)
      : options_(std::move(options)),
        log_ratio_{std::log(options_.ratio.from), std::log(options_.ratio.to)} {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) >= options_.probability) return;
    if (const auto box = random_box(pixels, rng)) blank(pixels, *box);
  }
  void check_channels(int channels) const override {
    const std::size_t count = options_.value.size();
    require(count == 1 || count == static_cast<std::size_t>(channels),
            "an erasing has one value, or one per channel");
  }

 private:
  std::optional<Box> random_box(const Pixels& pixels, KeyedRng& rng) const {
    const double area = static_cast<double>(pixels.height) * pixels.width;
    for (int i = 0; i < kErasingTries; ++i) {
      const double target = area * random_between(options_.area, rng);
      const double ratio = std::exp(random_between(log_ratio_, rng));
      const int height = round_to_int(std::sqrt(target * ratio));
      const int width = round_to_int(std::sqrt(target / ratio));
      if (height >= pixels.height || width >= pixels.width) continue;
      const int y = random_offset(pixels.height, height, rng);
      const int x = random_offset(pixels.width, width, rng);
      return Box{x, y, width, height};
    }
    return {};
  }

  void blank(Pixels& pixels, const Box& box) const {
    const auto channels = static_cast<std::size_t>(pixels.channels);
    for (int y = box.y; y < box.y + box.height; ++y)
      for (int x = box.x; x < box.x + box.width; ++x) {
        const auto at = static_cast<std::size_t>(y) * static_cast<std::size_t>(pixels.width) +
                        static_cast<std::size_t>(x);
        for (std::size_t c = 0; c < channels; ++c)
          pixels.levels[at * channels + c] =
              static_cast<std::uint8_t>(options_.value[options_.value.size() == 1 ? 0 : c]);
      }
  }

  RandomErasing options_;
  Interval log_ratio_;
};

}  // namespace

const ComponentName RandomErasing::kName = {"erase", "RandomErasing", "Blanks a random rectangle"};

void RandomErasing::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
  field.by_name();
  field("area", area, {.min = 0, .max = 1}, "The rectangle's share of the picture's area");
  field("ratio", ratio, {.min = 0, .open_min = true}, "The rectangle's height / width");
  field("value", value, {.min = 0, .max = 255}, "Its level, or one of each channel");
}

void RandomErasing::check() const { require(!value.empty(), "value needs a level"); }

std::unique_ptr<TransformStep> RandomErasing::make() const {
  return std::make_unique<ErasingStep>(*this);
}

}  // namespace millrace::decode
