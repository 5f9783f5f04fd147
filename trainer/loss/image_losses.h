// Losses of images, which compare each place with its neighbours. Places whose target is NaN count
// for nothing, nor does what they are a part of. Threads: as values.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// With d = x - y: the mean of |d(i, j + 1) - d(i, j)| over neighbours in a row, plus that over
/// neighbours in a column. Source: Hu, Ozay, Zhang, Okatani, "Revisiting single image depth
/// estimation" (2019), without the logarithm.
struct Gradient {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// 1 - the mean of SSIM over all windows that lie within a channel; windows are Gaussian, with a
/// deviation of 1.5 pixels; (k1 range)^2 and (k2 range)^2 are added, k1 = 0.01, k2 = 0.03. Source:
/// Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
/// similarity" (2004).
struct Ssim {
  std::int64_t window = 11;  ///< pixels, odd
  double range = 1.0;        ///< from the least to the largest target

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument for an even window.
  void check() const;
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses
