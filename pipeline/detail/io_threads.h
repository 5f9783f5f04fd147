// IoThreads: threads for work that waits for disk and network; it begins in the order of submit().
//
// Threads: submit() from any, all else from one. Buffers: what is submitted and has not begun.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace::pipeline::detail {

class IoThreads {
 public:
  /// Throws: Exhausted if there are not that many threads to be had.
  explicit IoThreads(int count);
  /// As stop().
  ~IoThreads();

  /// `work` must not throw. After stop() it is dropped.
  void submit(std::function<void()> work);
  /// How many work at once from now on; what is under way is not broken off. Throws: Exhausted;
  /// those that it has go on.
  void set_count(int count);
  /// Drops work that has not begun and waits for the rest.
  void stop();

 private:
  void serve();
  bool take(std::function<void()>& work);
  void done();

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_ MILLRACE_GUARDED_BY(mutex_);
  int allowed_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< to work at once
  int working_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool stopped_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::pipeline::detail
