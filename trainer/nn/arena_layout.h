// ArenaLayout: the offset of each buffer of a step in one arena, given its lifetime.
//
// Buffers whose lifetimes overlap never overlap in memory; others may share it. They are placed by
// size, the largest first, each at the lowest offset that is free during its lifetime.
//
// Threads: functions, and values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::trainer::nn {

/// A buffer that is written first at step `first` and used last at step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct ArenaLayout {
  std::vector<std::size_t> offsets;  ///< one per buffer, multiples of 64
  std::size_t total_bytes = 0;
};

ArenaLayout lay_out_arena(std::span<const Lifetime> buffers);

}  // namespace millrace::trainer::nn
