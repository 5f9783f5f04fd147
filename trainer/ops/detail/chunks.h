// in_chunks: values shared out to an op's threads.
//
// Threads: called by a device's thread, as a kernel.
#pragma once

#include <algorithm>
#include <cstddef>

namespace millrace::trainer::ops {

/// Calls range(begin, end) for parts of `count` values, on the team's threads.
template <typename Range>
void in_chunks(std::size_t count, const Range& range) {
  // Values per thread at least: with fewer, starting the team costs more than it saves.
  constexpr std::size_t kChunk = 8192;
  const auto chunks = static_cast<std::ptrdiff_t>((count + kChunk - 1) / kChunk);
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (std::ptrdiff_t i = 0; i < chunks; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kChunk;
    range(begin, std::min(count, begin + kChunk));
  }
}

}  // namespace millrace::trainer::ops
