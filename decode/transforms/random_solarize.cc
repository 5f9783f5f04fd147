#include "decode/transforms/random_solarize.h"

#include "decode/detail/random_levels.h"

namespace millrace::decode {

const ComponentName RandomSolarize::kName = {"solarize", "RandomSolarize",
                                             "Inverts the levels from a threshold on, at random"};

void RandomSolarize::fields(FieldList& field) {
  field("threshold", threshold, {.min = 0, .max = 256}, "The first level that is inverted");
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomSolarize::make() const {
  return detail::random_levels(
      probability, [from = threshold](int level) { return level < from ? level : 255 - level; });
}

}  // namespace millrace::decode
