// Extent, ResizeExtent, Sides, Angles: sizes in pixels, and angles, as transforms take them. A size
// is in text 224, 96x128 or [96, 128]; in Python a number or (height, width).
//
// Threads: value types.
#pragma once

#include "io/component/value_type.h"

namespace millrace::decode {

/// A size in pixels; one number sets both sides.
struct Extent {
  int height = 0;
  int width = 0;

  constexpr Extent() = default;
  constexpr Extent(int both) : height(both), width(both) {}  // NOLINT: 224 means 224 x 224
  constexpr Extent(int h, int w) : height(h), width(w) {}
  bool operator==(const Extent&) const = default;
};

/// What a resize aims at: height and width, or, of one number, the shorter side alone.
struct ResizeExtent {
  int height = 0;
  int width = 0;  ///< 0: the shorter side becomes `height`

  constexpr ResizeExtent() = default;
  constexpr ResizeExtent(int shorter) : height(shorter) {}  // NOLINT: 256, as torchvision's
  constexpr ResizeExtent(int h, int w) : height(h), width(w) {}
  constexpr ResizeExtent(const Extent& to) : height(to.height), width(to.width) {}  // NOLINT
  bool operator==(const ResizeExtent&) const = default;
};

/// Pixels that are added on each side. In text 4, [4, 8] (left and right, top and bottom) or [1, 2,
/// 3, 4].
struct Sides {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;

  constexpr Sides() = default;
  constexpr Sides(int all) : Sides(all, all) {}  // NOLINT: 4, as torchvision's
  constexpr Sides(int x, int y) : Sides(x, y, x, y) {}
  constexpr Sides(int l, int t, int r, int b) : left(l), top(t), right(r), bottom(b) {}
  bool operator==(const Sides&) const = default;
};

/// Degrees, from and to; one number sets both, of either sign. In text 15, -10..30.
struct Angles : Interval {
  constexpr Angles() = default;
  constexpr Angles(double most) : Interval{-most, most} {}  // NOLINT: 15, as torchvision's
  constexpr Angles(double least, double most) : Interval{least, most} {}
  bool operator==(const Angles&) const = default;
};

const ValueType& value_type(const Sides&);
const ValueType& value_type(const Angles&);
const ValueType& value_type(const Extent&);
const ValueType& value_type(const ResizeExtent&);

}  // namespace millrace::decode
