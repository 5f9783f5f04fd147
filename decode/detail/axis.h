// Axis: how one dimension of a stage's window is computed: by copying, or by weighted sums.
//
// The weights are those of PIL's (and torchvision's antialiased) resize: a filter scaled to the
// output pixel, clipped at the source's ends, normalised; here in fixed point, of 15 bits, or of 14
// where a filter overshoots, whose weights and sums may be larger than one.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/interpolation.h"

namespace millrace::decode::detail {

struct AxisRequest {
  double begin = 0;   ///< of the source, in input pixels (fractional after a scaled decode)
  double extent = 0;  ///< of the source
  int size = 0;       ///< the source's size after the resize, in pixels
  int window_begin = 0;
  int window_size = 0;
  bool mirrored = false;
  Interpolation interpolation = Interpolation::kBilinear;
};

struct Axis {
  int lead = 0;   ///< zeros before the first computed pixel
  int count = 0;  ///< pixels that are computed
  int trail = 0;  ///< zeros after the last
  bool mirrored = false;
  bool copies = false;  ///< pixel i is input pixel begin + i or, if mirrored, end - 1 - i
  int begin = 0;        ///< input pixels used: [begin, end)
  int end = 0;
  /// Unless `copies`: pixel i is the sum of weights[i * taps + t] * input[first[i] + t] / 2^bits.
  /// Mirroring is included in the order.
  int bits = 15;
  int taps = 0;
  std::vector<int> first;
  std::vector<int> used;  ///< number of taps of pixel i with a non-zero weight
  std::vector<std::int16_t> weights;

  /// Recomputes everything, reusing the storage.
  void plan(const AxisRequest& request);

 private:
  void plan_weights(const AxisRequest& request, int from);
  void weigh(int at, int lowest, int highest, double centre, double width);

  Interpolation filter_ = Interpolation::kBilinear;
  std::vector<double> line_;  ///< one pixel's weights before rounding
};

}  // namespace millrace::decode::detail
