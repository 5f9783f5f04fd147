#include "decode/transforms/sampled.h"

#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {

void list_fill(FieldList& field, std::vector<int>& fill) {
  field("fill", fill, {.min = 0, .max = 255},
        "Level of what the picture does not cover, or its red, green and blue; masks have zeros or "
        "the ignored label there");
}

void list_sampling(FieldList& field, std::optional<Interpolation>& interpolation,
                   std::vector<int>& fill) {
  list_interpolation(field, interpolation);
  list_fill(field, fill);
}

void list_policy(FieldList& field, Interpolation& interpolation, std::vector<int>& fill) {
  field("interpolation", interpolation,
        "Of turns and shears: nearest, bilinear, bicubic; random: of the latter two");
  field("fill", fill, {.min = 0, .max = 255},
        "Level of what the picture does not cover, or its red, green and blue");
}

void check_sampling(const std::optional<Interpolation>& interpolation) {
  require(interpolation != Interpolation::kLanczos,
          "interpolation lanczos is for resizes; there are bilinear, bicubic, nearest, random");
}

void check_fill(const std::vector<int>& fill) {
  require(fill.size() == 1 || fill.size() == 3, "fill is one level, or red, green and blue");
}

Fill fill_of(const std::vector<int>& levels) {
  Fill fill;
  for (std::size_t c = 0; c < 3; ++c)
    fill[c] = static_cast<std::uint8_t>(levels[levels.size() == 1 ? 0 : c]);
  return fill;
}

}  // namespace millrace::decode
