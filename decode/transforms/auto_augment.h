// AutoAugment: pairs of operations that were found by search. Source: Cubuk et al., "AutoAugment"
// (2018), and torchvision.transforms.v2.AutoAugment.
#pragma once

#include <memory>
#include <vector>

#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// The data set that the pairs were found on.
enum class AugmentPolicy { kImageNet, kCifar10, kSvhn };
const ValueType& value_type(const AugmentPolicy&);

/// One of 25 pairs, drawn for each picture.
struct AutoAugment {
  AugmentPolicy policy = AugmentPolicy::kImageNet;
  Interpolation interpolation = Interpolation::kNearest;
  std::vector<int> fill = {0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
