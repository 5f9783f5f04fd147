// What transforms that take random windows have in common.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "decode/interpolation.h"
#include "io/base/rng.h"
#include "io/component/component.h"
#include "io/component/value_type.h"

namespace millrace::decode {

/// Random crops of any kind draw from one generator.
inline constexpr Purpose kCropPurpose{4};

/// The field of transforms that resize.
inline void list_interpolation(FieldList& field, std::optional<Interpolation>& interpolation) {
  field("interpolation", interpolation,
        "How new pixels are computed; random: bilinear or bicubic; none: as the picture's field "
        "says");
}

/// A random offset of `size` within `extent`. Requires: size <= extent.
inline int random_offset(int extent, int size, KeyedRng& rng) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(extent - size) + 1));
}

inline double random_between(const Interval& range, KeyedRng& rng) {
  return range.from + (range.to - range.from) * static_cast<double>(rng.uniform());
}

/// Python's round(): halves round to even.
inline int round_to_int(double value) { return static_cast<int>(std::nearbyint(value)); }

}  // namespace millrace::decode
