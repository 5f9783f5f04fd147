// Lighting: colours shifted along the directions in which those of photographs vary. Source:
// Krizhevsky, Sutskever, Hinton, "ImageNet Classification with Deep Convolutional Neural Networks"
// (2012), section 4.1.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Adds to every pixel the three principal components of ImageNet's colours, each times its
/// eigenvalue and a normally distributed random number.
struct Lighting {
  double std = 0.1;  ///< of the random numbers

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode
