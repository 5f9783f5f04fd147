// StageRunner: computes one stage of a Geometry, a band of rows at a time. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode/detail/axis.h"
#include "decode/detail/pixels.h"
#include "decode/detail/sampler.h"
#include "decode/geometry.h"

namespace millrace::decode::detail {

class StageRunner {
 public:
  struct How {
    int scale = 1;          ///< by which the input is already divided
    bool mirrored = false;  ///< left and right
    bool mirrored_vertically = false;
    Interpolation interpolation = Interpolation::kBilinear;  ///< the decoder's own
    bool fills = true;  ///< else borders are zeros, whatever stages say
  };

  /// How the stage is computed: kNearest of a decoder overrules it.
  static Interpolation interpolation_of(const Stage& stage, Interpolation own);
  /// Prepares `stage` and returns the box of the input that it needs, which may be empty.
  Box plan(const Stage& stage, const How& how);

  /// Row `y` of the window. Lifetime: until the next call. Requires: `input` covers the planned
  /// box, and rows are requested in order.
  const std::uint8_t* row(const PixelView& input, int y);

 private:
  static constexpr int kMaxBandRows = 32;

  const std::uint8_t* input_row(const PixelView& input, int y) const;
  int copied_row(int i) const;
  const std::uint8_t* vertical(const PixelView& input, int i);
  void vertical_fine(const PixelView& input, int i, std::int16_t* out) const;
  const std::uint8_t* resampled(const PixelView& input, int i);
  const std::uint8_t* copied(const PixelView& input, int i);
  void make_band(const PixelView& input, int first);
  std::size_t line_bytes(int channels) const;

  bool samples_ = false;  ///< then `sampler_` makes the rows
  Sampler sampler_;
  Axis x_;
  Axis y_;
  int band_first_ = -1;  ///< the first resampled row in lines_, or -1
  std::vector<std::uint8_t> blended_;
  std::vector<std::int16_t> fine_;
  std::vector<std::int16_t> band_;
  std::vector<std::uint8_t> resampled_band_;
  std::vector<std::uint8_t> lines_;
};

}  // namespace millrace::decode::detail
