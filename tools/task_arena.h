// TaskArena: a TBB arena with as many threads of its own as the user asked for, even more than
// there are cores. TBB's own workers are not used: where no thread is to be had, they end the
// process.
//
//   TaskArena arena(4);
//   arena.execute([&] { tbb::parallel_for(...); });
//
// Threads: any.
#pragma once

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace::tools {

class TaskArena {
 public:
  /// `threads` 0: one per core. Throws: Exhausted if there are not that many to be had.
  explicit TaskArena(int threads);
  ~TaskArena();
  TaskArena(const TaskArena&) = delete;
  TaskArena& operator=(const TaskArena&) = delete;

  /// With the one that calls execute().
  int num_threads() const { return num_threads_; }
  /// Runs `work` on this thread, its parallel algorithms on all. Throws: as `work`.
  void execute(const std::function<void()>& work);

 private:
  /// A graph without nodes, whose wait runs the arena's tasks until its hold is released.
  using Hold = tbb::flow::graph;

  void add_helper();
  void serve(Hold& hold);
  void stop();

  const int num_threads_;
  tbb::task_arena arena_;
  std::vector<std::unique_ptr<Hold>> holds_;  ///< each helper's own
  Mutex mutex_;
  std::condition_variable_any called_;
  std::uint64_t calls_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< of execute()
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> helpers_;
};

}  // namespace millrace::tools
