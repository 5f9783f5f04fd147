// Arena: a TBB task arena with threads of its own.
//
// TBB's shared pool has one worker fewer than the machine has cores, for all arenas together, and
// its workers outlive the arenas. A pipeline promises a number of threads, all of which end with
// it, so it brings its own.
//
// A thread that finds no task in a TBB arena yields a hundred times before it sleeps, and is woken
// by every task of any kind; with small batches that was most of the threads' work. So every task
// is announced to this class, and its threads enter TBB's arena only while there are tasks, no more
// of them than can run at once. Otherwise they sleep here.
//
//   arena.add(Arena::Need::kParallel);   // before the task is handed to a node
//   arena.done(Arena::Need::kParallel);  // the last statement of the task
//
// Threads: any; set_threads() beside no other call of it, nor of stop().
#pragma once

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace::pipeline::detail {

class Arena {
 public:
  /// Whether tasks run one at a time, each too short to wake a thread for, or beside each other.
  enum class Need { kSerial, kParallel };

  /// Requires: most_threads >= num_threads, or 0 for as many. Throws: Exhausted if there are not
  /// that many threads to be had.
  explicit Arena(int num_threads, int most_threads = 0);
  /// As stop(). All tasks must be done or cancelled.
  ~Arena() noexcept;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  oneapi::tbb::task_arena &tbb() { return arena_; }

  /// Announces a task, and wakes a thread if one is needed for it.
  void add(Need need);
  /// The task that add() announced is done.
  void done(Need need);
  /// How many threads run tasks from now on; fewer than before only after a moment without tasks.
  /// Requires: at most most_threads. Throws: Exhausted; those that it has go on.
  void set_threads(int num_threads);
  /// Ends the threads, each after its current task. A caller that then waits for the remaining
  /// tasks runs them itself. The threads must end first: TBB may hand the waiting caller another
  /// thread's whole wait, which only ends with the last task.
  void stop() noexcept;
  /// Threads that are in TBB's arena or were woken for it; the others sleep.
  int awake() const;

 private:
  /// A graph without nodes, whose wait runs the arena's tasks until its hold is released.
  using Hold = oneapi::tbb::flow::graph;

  void add_thread();
  void serve(Hold &hold);
  bool wait_for_call(Hold &hold);
  bool is_needed(Hold &hold);
  void keep(Hold &hold) MILLRACE_REQUIRES(mutex_);
  void release_holds() MILLRACE_REQUIRES(mutex_);
  int wanted() const MILLRACE_REQUIRES(mutex_);

  oneapi::tbb::task_arena arena_;
  mutable Mutex mutex_;
  std::condition_variable_any called_;
  /// Of the threads that run tasks until none is left; as many as fit into what is reserved.
  std::vector<Hold *> held_ MILLRACE_GUARDED_BY(mutex_);
  int num_threads_ MILLRACE_GUARDED_BY(mutex_) = 0;
  int num_tasks_ MILLRACE_GUARDED_BY(mutex_) = 0;     ///< added and not done
  int num_parallel_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< of these
  int awake_ MILLRACE_GUARDED_BY(mutex_) = 0;         ///< threads in TBB's arena or woken for it
  int calls_ MILLRACE_GUARDED_BY(mutex_) = 0;         ///< threads woken that still sleep
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Hold>> holds_;  ///< each thread's own
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::pipeline::detail
