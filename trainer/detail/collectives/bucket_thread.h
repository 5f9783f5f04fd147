// BucketThread: a thread that works on a step's buckets one after the other, as far as it is
// allowed to, while its owner computes.
//
//   BucketThread thread(12, [&](std::size_t bucket) { group.reduce_scatter(part(bucket)); });
//   thread.begin();
//   thread.allow(3);      // buckets 0 to 2
//   thread.wait_for(2);   // returns when 0 and 1 are done
//
// Threads: one at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>

#include "io/base/thread_annotations.h"

namespace millrace::trainer::detail {

class BucketThread {
 public:
  BucketThread(std::size_t buckets, std::function<void(std::size_t)> work);
  /// Waits for a call of `work`: abort its group first if other ranks may not join it.
  ~BucketThread();
  BucketThread(const BucketThread&) = delete;
  BucketThread& operator=(const BucketThread&) = delete;

  std::size_t buckets() const { return buckets_; }
  /// Starts a step: no bucket is allowed. Requires: the last step's are done, or work() has thrown.
  void begin();
  /// Lets it work on the first `n`, which never decreases within a step.
  void allow(std::size_t n);
  bool has_done(std::size_t n);
  /// Returns when the first `n` are done. Throws: what work() threw.
  void wait_for(std::size_t n);

 private:
  void run(const std::stop_token& stop);

  const std::size_t buckets_;
  const std::function<void(std::size_t)> work_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t allowed_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t done_ MILLRACE_GUARDED_BY(mutex_);
  std::exception_ptr error_ MILLRACE_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace millrace::trainer::detail
