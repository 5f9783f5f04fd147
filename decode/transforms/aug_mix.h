// AugMix: a mixture of a picture and of several chains of operations on it. Source: Hendrycks et
// al., "AugMix" (2019), and torchvision.transforms.v2.AugMix.
#pragma once

#include <memory>
#include <vector>

#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

struct AugMix {
  int severity = 3;       ///< strengths to draw from, 1 to 10
  int mixture_width = 3;  ///< chains
  int chain_depth = -1;   ///< operations of a chain; -1: 1 to 3, drawn
  double alpha = 1;       ///< of the shares' distributions
  bool all_ops = true;    ///< with brightness, colour, contrast and sharpness
  Interpolation interpolation = Interpolation::kBilinear;
  std::vector<int> fill = {0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
