// Normalize: levels become floats about a mean. Source: torchvision.transforms.Normalize.
#pragma once

#include <memory>
#include <vector>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// (level / 255 - mean) / std, per channel. A single value applies to all channels.
struct Normalize {
  std::vector<float> mean = {0.0F};
  std::vector<float> std = {1.0F};

  static Normalize imagenet() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
