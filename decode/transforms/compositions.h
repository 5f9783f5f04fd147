// RandomApply, RandomChoice: transforms that hold others. Source: torchvision.transforms.v2.
//
// Those that they hold are all geometry or all changes of levels. They draw from the generator of
// the one that holds them. Geometry in them must leave pictures of one size, whatever is drawn.
#pragma once

#include <memory>
#include <vector>

#include "decode/transforms.h"

namespace millrace::decode {

/// All of them, one after another, or none.
struct RandomApply {
  std::vector<Transform> transforms = {};
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

/// One of them.
struct RandomChoice {
  std::vector<Transform> transforms = {};
  std::vector<double> weights = {};  ///< how often each is taken; none: all equally

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
