// Projections of pictures, by what people say of them, with torchvision's conventions.
#pragma once

#include <array>

#include "decode/geometry.h"

namespace millrace::decode::detail {

struct Point {
  double x = 0;
  double y = 0;
};

/// A picture that is turned, moved, scaled and sheared about `centre`.
struct Affine {
  double angle = 0;  ///< degrees, clockwise
  Point move = {};   ///< pixels
  double scale = 1;
  Point shear = {};  ///< degrees
  Point centre = {};
};

/// Source: torchvision's functional.affine.
Projection affine_projection(const Affine& affine);

/// Turned anticlockwise by `degrees`, about the middle. Source: torchvision's functional.rotate.
Projection rotation(double degrees, int width, int height);

/// Moves the points `from` to `to`. Source: torchvision's functional.perspective. Requires: no
/// three of the points are on one line.
Projection perspective(const std::array<Point, 4>& from, const std::array<Point, 4>& to);

}  // namespace millrace::decode::detail
