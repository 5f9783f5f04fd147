// ShuffleDraws: which sample is at which place of a shuffle buffer, from the numbers drawn alone.
//
// A sample that comes in is behind the others until the next one is returned, whose place it then
// takes. So a buffer that is always as full as it may be is a function of its key and of how many
// samples came and went: a position that says so need not list the places.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/base/rng.h"

namespace millrace::wds {

/// The place of the sample that a buffer of `held` samples returns as the stream's `index`-th.
std::size_t drawn_place(RngKey key, std::uint64_t index, std::size_t held);

struct ShuffleDraws {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;
  std::uint64_t buffer_samples = 0;  ///< the buffer's limit
  std::uint64_t earlier = 0;         ///< samples of earlier passes, before the buffer was empty
  std::uint64_t in = 0;              ///< of this pass: that came into the buffer,
  std::uint64_t out = 0;             ///< and were returned
};

/// For each place the number of the sample there, by which they came in this pass, from 0 on;
/// nullopt where a buffer cannot hold so many, or where too many numbers had to be drawn.
std::optional<std::vector<std::uint64_t>> drawn_samples(const ShuffleDraws& draws);

}  // namespace millrace::wds
