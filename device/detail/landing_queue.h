// LandingQueue: batches that wait for one device, landed or landing.
//
// Buffers: `depth` batches. Threads: wait_for_room() and the push...() from one, next() from
// another, the rest from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <future>
#include <memory>

#include "device/parallel_loader.h"
#include "io/base/thread_annotations.h"

namespace millrace::device::detail {

class LandingQueue {
 public:
  explicit LandingQueue(std::size_t depth) : depth_(depth) {}

  /// Waits until there is room for a batch and returns true; false if the queue was stopped.
  bool wait_for_room();
  void push(std::future<DeviceBatch> batch);
  /// After the batches of an epoch: its end, whether it is the last epoch, and its ledger.
  void push_end(bool last, std::shared_ptr<const wds::FaultLedger> ledger);
  /// After the batches: the exception of the pipeline. Allocates nothing.
  void push_fault(std::exception_ptr fault) noexcept;
  /// Makes wait_for_room() return false and next() throw Cancelled.
  void stop();

  bool next(DeviceBatch& batch);
  bool finished() const;
  /// Of the epoch that ended last.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  DeviceBatch last() const;
  WaitStatistics waits() const;
  std::size_t ready() const;

 private:
  struct Item {
    std::future<DeviceBatch> batch = {};
    bool end = false;
    bool last = false;
    std::shared_ptr<const wds::FaultLedger> ledger = nullptr;
  };
  using Clock = std::chrono::steady_clock;

  void push_item(Item item);
  bool take(DeviceBatch& batch);
  Item take_item();
  bool hand_out(Item item, DeviceBatch& batch);
  void count_wait(Clock::time_point start) MILLRACE_REQUIRES(mutex_);

  const std::size_t depth_;
  const Clock::time_point made_ = Clock::now();
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_ MILLRACE_GUARDED_BY(mutex_);
  bool stopped_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::exception_ptr fault_ MILLRACE_GUARDED_BY(mutex_);         ///< next() has thrown it
  std::exception_ptr pushed_fault_ MILLRACE_GUARDED_BY(mutex_);  ///< it throws this after the items
  DeviceBatch last_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<const wds::FaultLedger> ledger_ MILLRACE_GUARDED_BY(mutex_);
  WaitStatistics waits_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::device::detail
