#include "decode/transforms/random_adjust_sharpness.h"

#include "decode/detail/neighbours.h"
#include "decode/detail/random_levels.h"

namespace millrace::decode {

const ComponentName RandomAdjustSharpness::kName = {"sharpness", "RandomAdjustSharpness",
                                                    "Sharpens, or blurs a little, at random"};

void RandomAdjustSharpness::fields(FieldList& field) {
  field("sharpness_factor", factor, {.min = 0},
        "Of a level's distance from its surroundings: below 1 blurs, above sharpens");
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomAdjustSharpness::make() const {
  return detail::random_change(
      probability, [by = factor](Pixels& pixels) { detail::change_sharpness(pixels, by); });
}

}  // namespace millrace::decode
