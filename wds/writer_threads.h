// WriterThreads: the threads that hash, write and publish shards behind whoever calls a
// ShardWriter. Writers that are open together, such as those of folds, share them.
//
//   const auto threads = std::make_shared<WriterThreads>();
//   ShardWriter train({.pattern = "train-%06d.tar", .threads = threads});
//   ShardWriter val({.pattern = "val-%06d.tar", .threads = threads});
//
// Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "io/base/thread_annotations.h"

namespace millrace::wds {

/// A thread that runs jobs one behind the other. It starts with the first one.
class JobLane {
 public:
  /// `purpose`: what for, as start_thread() says it.
  explicit JobLane(std::string purpose) : purpose_(std::move(purpose)) {}
  /// Runs what is there.
  ~JobLane();
  JobLane(const JobLane&) = delete;
  JobLane& operator=(const JobLane&) = delete;

  /// Returns at once; the future throws what the job threw. Order: as added. Buffers: all that
  /// wait; whoever adds bounds them by waiting for earlier ones. Throws: Exhausted (no thread).
  std::future<void> add(std::function<void()> job);

 private:
  void work();

  const std::string purpose_;
  Mutex mutex_;
  std::condition_variable_any added_;
  std::deque<std::packaged_task<void()>> jobs_ MILLRACE_GUARDED_BY(mutex_);
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  ///< last: it uses the others
};

/// Returns when `job` is done, a std::future or std::shared_future. After `notice`, `say` is called
/// once. What a job itself waits for is bounded: by a store's retries, or by the kernel.
template <typename Job>
void await_job(const Job& job, const std::function<void()>& say,
               std::chrono::milliseconds notice = std::chrono::seconds(2)) {
  if (job.wait_for(notice) == std::future_status::ready) return;
  say();
  job.wait();
}

/// Jobs of `publish` wait for those of the others, and never the other way round.
struct WriterThreads {
  JobLane hash{"to hash shards"};
  JobLane write{"to write shards"};
  JobLane publish{"to publish shards"};
};

}  // namespace millrace::wds
