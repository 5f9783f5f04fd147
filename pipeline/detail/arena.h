// Arena: a TBB task arena with exactly so many threads, which are its own.
//
// TBB's shared pool has as many workers as the machine has cores, less one, for
// all arenas together, and they outlive the arenas. A pipeline promises a
// number of threads and to leave none behind, so it brings its own.
//
// A thread that finds no task in TBB's arena gives its core away a hundred
// times (sched_yield) before it sleeps, and is woken by every task of any kind.
// Small batches made that most of what threads did. So the arena is told of
// every task, and its threads are in TBB's hands only while there are tasks,
// and no more of them than can run at once; else they sleep here.
//
//   arena.add(Arena::Need::kParallel);   // before the task is handed to a node
//   arena.done(Arena::Need::kParallel);  // the last thing that the task does
//
// Threads: any.
#pragma once

#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <condition_variable>
#include <thread>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace::pipeline::detail {

class Arena {
 public:
  /// Tasks that run one after the other, whose turns are too short for a thread
  /// each; or beside each other.
  enum class Need { kSerial, kParallel };

  explicit Arena(int num_threads);
  /// As stop(). All tasks must be done or cancelled.
  ~Arena() noexcept;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  oneapi::tbb::task_arena &tbb() { return arena_; }

  void add(Need need);
  void done(Need need);
  /// Ends the threads, each after the task that it is at. Whoever then waits for what is left runs
  /// it himself: a thread that waits in the arena may be given another one's whole stay there,
  /// which ends with the last task only.
  void stop() noexcept;
  /// Threads that are with TBB, or were called to it; the others sleep.
  int awake() const;

 private:
  void serve();
  bool wait_for_call();
  bool is_needed();
  int wanted() const MILLRACE_REQUIRES(mutex_);

  const int num_threads_;
  oneapi::tbb::task_arena arena_;
  oneapi::tbb::task_group tasks_;
  mutable Mutex mutex_;
  std::condition_variable_any called_;
  /// While it lives, tasks_.wait() does not return, and runs the arena's tasks.
  oneapi::tbb::task_handle hold_ MILLRACE_GUARDED_BY(mutex_);
  int num_tasks_ MILLRACE_GUARDED_BY(mutex_) = 0;     ///< added and not done
  int num_parallel_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< of these
  int awake_ MILLRACE_GUARDED_BY(mutex_) = 0;         ///< threads with TBB or called to it
  int calls_ MILLRACE_GUARDED_BY(mutex_) = 0;         ///< threads called that still sleep
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::pipeline::detail
