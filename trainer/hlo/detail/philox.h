// The KeyedRng of io/base/rng.h in StableHLO: the same numbers, for each sample of a batch.
//
// Threads: as builder.h's.
#pragma once

#include <cstdint>

#include "io/base/rng.h"
#include "trainer/hlo/layer_program.h"

namespace millrace::trainer::hlo {

/// What of an RngKey is known when the program is written.
struct FixedKey {
  std::uint32_t stream = 0;
  Purpose purpose = Purpose::kUser;
};

/// KeyedRng::uniform(), `shape[1]` numbers of each of `shape[0]` samples: float32, of that shape.
Tensor uniform(const RandomKey& key, const FixedKey& fixed, const Shape& shape);

}  // namespace millrace::trainer::hlo
