#include "decode/transforms/random_posterize.h"

#include "decode/detail/random_levels.h"

namespace millrace::decode {

const ComponentName RandomPosterize::kName = {"posterize", "RandomPosterize",
                                              "Leaves the upper bits of each level, at random"};

void RandomPosterize::fields(FieldList& field) {
  field("bits", bits, {.min = 0, .max = 8}, "Bits that are kept");
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomPosterize::make() const {
  return detail::random_levels(
      probability, [mask = ~((1 << (8 - bits)) - 1)](int level) { return level & mask; });
}

}  // namespace millrace::decode
