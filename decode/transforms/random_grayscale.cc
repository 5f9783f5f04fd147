#include "decode/transforms/random_grayscale.h"

#include <algorithm>

#include "decode/detail/pixels.h"
#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

class GrayscaleStep final : public PixelStep {
 public:
  explicit GrayscaleStep(double probability) : probability_(probability) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) >= probability_ || pixels.channels == 1) return;
    const auto channels = static_cast<std::size_t>(pixels.channels);
    for (std::size_t i = 0; i + channels <= pixels.levels.size(); i += channels)
      std::ranges::fill(pixels.levels.subspan(i, 3), detail::luma(&pixels.levels[i]));
  }

 private:
  double probability_;
};

}  // namespace

const ComponentName RandomGrayscale::kName = {"grayscale", "RandomGrayscale",
                                              "Colours become grey at random"};

void RandomGrayscale::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomGrayscale::make() const {
  return std::make_unique<GrayscaleStep>(probability);
}

}  // namespace millrace::decode
