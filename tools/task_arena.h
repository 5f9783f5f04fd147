// TaskArena: a TBB arena of as many threads as the user asked for, even more than there are cores.
#pragma once

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstddef>

#include "io/base/machine.h"

namespace millrace::tools {

class TaskArena {
 public:
  /// `threads` 0: one per core.
  explicit TaskArena(int threads)
      : limit_(tbb::global_control::max_allowed_parallelism,
               static_cast<std::size_t>(std::max(threads, tbb::info::default_concurrency()))),
        arena_(threads > 0 ? threads : usable_cores()) {}

  tbb::task_arena& tbb() { return arena_; }

 private:
  tbb::global_control
      limit_;  // without it TBB warns on standard error if there are more threads than cores
  tbb::task_arena arena_;
};

}  // namespace millrace::tools
