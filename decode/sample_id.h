// SampleId: the key of a sample's random choices.
#pragma once

#include <cstdint>

#include "io/base/rng.h"

namespace millrace::decode {

struct SampleId {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;
  std::uint64_t index = 0;
  /// Which view of the sample: pictures with the same one get the same crops, flips and colours.
  std::uint64_t view = 0;

  /// The generator for one kind of choice about this view.
  KeyedRng rng(Purpose purpose) const {
    return KeyedRng({.seed = seed ^ view,
                     .epoch = epoch,
                     .stream = stream,
                     .index = index,
                     .purpose = purpose});
  }
};

}  // namespace millrace::decode
