// StageRunner: one stage of a Geometry, row by row, with the few rows of scratch it needs.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/detail/axis.h"
#include "decode/detail/geometry.h"
#include "decode/detail/pixels.h"

namespace millrace::decode::detail {

class StageRunner {
 public:
  /// Gets ready for `stage`, whose input comes divided by `scale`; gives the input's box that is
  /// needed, which may be empty.
  Box plan(const Stage& stage, int scale, bool mirrored);

  /// Row `y` of the window: valid until the next call. `input` holds at least the planned box.
  const std::uint8_t* row(const PixelView& input, int y);

 private:
  const std::uint8_t* vertical(const PixelView& input, int i);
  void horizontal(const std::uint8_t* in, std::uint8_t* out, int channels) const;

  Axis x_;
  Axis y_;
  std::vector<std::uint8_t> blended_;
  std::vector<std::uint8_t> line_;
};

}  // namespace millrace::decode::detail
