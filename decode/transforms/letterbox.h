// Letterbox: the whole picture in its own proportions, in the middle of a picture of fixed size.
// Source: PIL.ImageOps.contain, for its rounding.
#pragma once

#include <memory>
#include <optional>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Resizes so that the picture just fits into `size`, keeping the aspect ratio: one side fits, the
/// other is as long or shorter. What is left over, half of it on either side (of an odd number the
/// larger half behind), is padded with zeros.
struct Letterbox {
  Extent size = {};
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
