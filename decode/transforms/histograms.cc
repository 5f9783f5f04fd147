#include "decode/transforms/histograms.h"

#include "decode/detail/colour.h"
#include "decode/detail/random_levels.h"

namespace millrace::decode {

const ComponentName RandomAutocontrast::kName = {
    "autocontrast", "RandomAutocontrast",
    "Stretches each colour's levels to the whole range, at random"};

void RandomAutocontrast::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomAutocontrast::make() const {
  return detail::random_change(probability, [](Pixels& pixels) {
    detail::stretch_contrast(pixels.levels, pixels.channels);
  });
}

const ComponentName RandomEqualize::kName = {
    "equalize", "RandomEqualize", "Makes each colour's levels equally frequent, at random"};

void RandomEqualize::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomEqualize::make() const {
  return detail::random_change(
      probability, [](Pixels& pixels) { detail::equalize(pixels.levels, pixels.channels); });
}

}  // namespace millrace::decode
