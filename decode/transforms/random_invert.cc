#include "decode/transforms/random_invert.h"

#include "decode/detail/random_levels.h"

namespace millrace::decode {

const ComponentName RandomInvert::kName = {"invert", "RandomInvert",
                                           "Inverts the levels at random"};

void RandomInvert::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomInvert::make() const {
  return detail::random_levels(probability, [](int level) { return 255 - level; });
}

}  // namespace millrace::decode
