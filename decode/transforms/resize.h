// Resize, ResizeShort, ResizeCover: the whole picture at another size. Source:
// torchvision.transforms.Resize, for its rounding.
#pragma once

#include <memory>
#include <optional>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Resizes to exactly height and width; of one number as ResizeShort.
struct Resize {
  ResizeExtent size = {};
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

/// Resizes so that the shorter side is `size`, keeping the aspect ratio.
struct ResizeShort {
  int size = 256;
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

/// Resizes so that the picture just covers `size`, keeping the aspect ratio: one side fits, the
/// other is as long or longer. For equal sides as ResizeShort, also in rounding.
struct ResizeCover {
  Extent size = {};
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
