// Sampler: looks up pixels where a projection says: one stage of a Geometry, or pixels in place.
//
// Source of its conventions: PIL's Image.transform. A pixel whose place is outside of the picture
// is of the border; for any other, what its interpolation takes from outside is the nearest pixel.
// Nothing is antialiased. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/detail/pixels.h"
#include "decode/geometry.h"
#include "decode/transform_step.h"

namespace millrace::decode::detail {

class Sampler {
 public:
  struct How {
    bool mirrored = false;  ///< left and right
    bool mirrored_vertically = false;
    Interpolation interpolation = Interpolation::kBilinear;  ///< kLanczos is kBicubic
    bool fills = true;                                       ///< else borders are zeros
  };

  /// Prepares a stage and returns the box of the input that it needs, which may be empty. Requires:
  /// stage.sampling.
  Box plan(const Stage& stage, const How& how);

  /// Row `y` of the window. Lifetime: until the next call. Requires: `input` covers the planned
  /// box.
  const std::uint8_t* row(const PixelView& input, int y);

 private:
  template <int kChannels>
  void sample_row(const PixelView& input, int y, std::uint8_t* out) const;

  Stage stage_ = {};
  How how_ = {};
  std::vector<std::uint8_t> line_;
};

/// Replaces the pixels by what `sampling` shows of them.
void sample_in_place(Pixels& pixels, const Sampling& sampling, Interpolation interpolation);

}  // namespace millrace::decode::detail
