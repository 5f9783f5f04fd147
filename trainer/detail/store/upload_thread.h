// UploadThread: sends what a run writes to an object store, beside the training.
//
// Jobs run one behind the other; the first one that fails is thrown by the next call, and those
// behind it are not run. They get a stop token of their own, because what is written after a stop
// was requested, such as the last checkpoint, has to arrive. From then on, and in a destructor, a
// wait takes at most 20 s; then the transfer is ended.
//
//   UploadThread uploads(stop);
//   uploads.add([=](const std::stop_token& token) { put(opener, url, bytes, token); });
//   uploads.finish();
//
// Threads: any. Buffers: at most two jobs, and those that are not due yet.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

#include "io/base/clock.h"

namespace millrace::trainer::detail {

class UploadThread {
 public:
  using Job = std::function<void(const std::stop_token&)>;

  /// Told every 0.1 s how long add() or finish() has waited, on its thread.
  using Waits = std::function<void(std::chrono::nanoseconds waited)>;

  explicit UploadThread(std::stop_token stop, Waits waits = {})
      : stop_(std::move(stop)), waits_(std::move(waits)) {}
  /// Runs the jobs that are there, within 20 s; a failure is lost.
  ~UploadThread();
  UploadThread(const UploadThread&) = delete;
  UploadThread& operator=(const UploadThread&) = delete;

  /// Waits while two jobs are due already. Throws: what an earlier job threw.
  void add(Job job);
  /// Runs `job` after `delay`, or in finish(). Throws: what an earlier job threw.
  void add_later(Clock::Duration delay, Job job);
  /// Returns when all jobs have run. Throws: what one of them threw.
  void finish();

 private:
  using Time = std::chrono::steady_clock::time_point;

  void put(Time due, Job job);
  void throw_failure();
  bool is_full() const;
  bool is_idle() const { return jobs_.empty() && !running_; }
  void wait(std::unique_lock<std::mutex>& lock, bool limited, const std::function<bool()>& until);
  void work();
  bool run_next(std::unique_lock<std::mutex>& lock);

  const std::stop_token stop_;
  const Waits waits_;
  std::stop_source cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Time, Job> jobs_;
  std::exception_ptr failure_;
  bool running_ = false;
  bool hurried_ = false;  ///< jobs are run before they are due
  bool ended_ = false;
  std::jthread thread_;  ///< started with the first job
};

}  // namespace millrace::trainer::detail
