// A U-Net on a ResNet-34 encoder: two heads, the mask's logits and the depth, and skips that are
// added, not concatenated. About 30 million parameters at its usual width of 64; they grow with
// the width's square. Its images' sides are multiples of 32.
//
// Source: Ronneberger, Fischer, Brox, "U-Net" (2015); He et al., "Deep residual learning" (2015).
// Threads: as a value.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct UNet {
  int width = 64;  ///< channels of the encoder's first stage, 2 to 1024; odd ones round heads down

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models
