// Arena: a TBB task arena with exactly so many threads, which are its own.
//
// TBB's shared pool has as many workers as the machine has cores, less one, for all arenas
// together, and they outlive the arenas. A pipeline promises a number of threads and to leave none
// behind, so it brings its own: each sits in the arena and runs its tasks until the arena goes.
#pragma once

#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <thread>
#include <vector>

namespace millrace::pipeline::detail {

class Arena {
 public:
  explicit Arena(int num_threads);
  /// All tasks must be done or cancelled.
  ~Arena() noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  oneapi::tbb::task_arena& tbb() { return arena_; }

 private:
  oneapi::tbb::task_arena arena_;
  oneapi::tbb::task_group life_;
  oneapi::tbb::task_handle hold_;  ///< while it lives, life_.wait() does not return
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::pipeline::detail
