// SampleId: the key of a sample's random choices.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/base/rng.h"

namespace millrace::decode {

/// A sample's number in every epoch and order: FNV-1a of its key. `from`: that of what stands
/// before the key.
constexpr std::uint64_t sample_number(std::string_view key,
                                      std::uint64_t from = 14695981039346656037U) {
  for (const char letter : key)
    from = (from ^ static_cast<std::uint8_t>(letter)) * std::uint64_t{1099511628211U};
  return from;
}

struct SampleId {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;
  std::uint64_t index = 0;
  /// Which view of the sample: pictures with the same one get the same crops, flips and colours.
  std::uint64_t view = 0;
  /// Which sample it is, the same in every epoch: sample_number() of its key.
  std::uint64_t sample = 0;

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
