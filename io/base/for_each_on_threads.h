// The same work on each of many things, on some threads: reading files that may be far away.
//
//   for_each_on_threads(shards.size(), 16, [&](std::size_t i) { found[i] = look_at(shards[i]); });
//
// Threads: any.
#pragma once

#include <cstddef>
#include <functional>

namespace millrace {

/// Calls work(i) for each i below `count`, in any order, on this thread and up to `most_threads` -
/// 1 others (run_on_threads()). What one call throws ends no other; the first in order is thrown at
/// the end.
void for_each_on_threads(std::size_t count, std::size_t most_threads,
                         const std::function<void(std::size_t i)>& work);

}  // namespace millrace
