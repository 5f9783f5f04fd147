#include "device/detail/landing_queue.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"

namespace millrace::device::detail {

bool LandingQueue::wait_for_room() {
  MutexLock lock(mutex_);
  while (items_.size() >= depth_ && !stopped_) changed_.wait(lock);
  return !stopped_;
}

void LandingQueue::push(std::future<DeviceBatch> batch) { push_item({.batch = std::move(batch)}); }

void LandingQueue::push_end(bool last, std::shared_ptr<const wds::FaultLedger> ledger) {
  push_item({.end = true, .last = last, .ledger = std::move(ledger)});
}

void LandingQueue::push_fault(std::exception_ptr fault) noexcept {
  {
    MutexLock lock(mutex_);
    pushed_fault_ = std::move(fault);
  }
  changed_.notify_all();
}

void LandingQueue::push_item(Item item) {
  {
    MutexLock lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void LandingQueue::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

bool LandingQueue::next(DeviceBatch& batch) {
  batch = {};
  const Clock::time_point start = Clock::now();
  bool is_ready = false;
  {
    MutexLock lock(mutex_);
    if (finished_) return false;
    if (fault_) std::rethrow_exception(fault_);
    is_ready = !items_.empty();
  }
  const bool more = take(batch);
  MutexLock lock(mutex_);
  count_wait(start);
  if (!more) return false;
  ++waits_.batches;
  if (is_ready) ++waits_.ready;
  last_ = batch;
  return true;
}

bool LandingQueue::take(DeviceBatch& batch) {
  try {
    return hand_out(take_item(), batch);
  } catch (...) {
    MutexLock lock(mutex_);
    if (!stopped_) fault_ = std::current_exception();
    throw;
  }
}

LandingQueue::Item LandingQueue::take_item() {
  Item item;
  {
    MutexLock lock(mutex_);
    while (items_.empty() && !pushed_fault_ && !stopped_) changed_.wait(lock);
    if (stopped_) {
      throw Error(ErrorCode::kCancelled, "the loader was stopped", {.stage = "device"});
    }
    if (items_.empty()) std::rethrow_exception(pushed_fault_);
    item = std::move(items_.front());
    items_.pop_front();
  }
  changed_.notify_all();
  return item;
}

// Waits for the landing without the lock.
bool LandingQueue::hand_out(Item item, DeviceBatch& batch) {
  if (!item.end) {
    batch = item.batch.get();
    return true;
  }
  MutexLock lock(mutex_);
  finished_ = item.last;
  ledger_ = std::move(item.ledger);
  return false;
}

void LandingQueue::count_wait(Clock::time_point start) {
  const Clock::time_point end = Clock::now();
  waits_.total += end - start;
  waits_.longest = std::max<std::chrono::nanoseconds>(waits_.longest, end - start);
  if (waits_.batches == 0) waits_.first_batch = end - made_;
}

bool LandingQueue::finished() const {
  MutexLock lock(mutex_);
  return finished_;
}

std::shared_ptr<const wds::FaultLedger> LandingQueue::ledger() const {
  MutexLock lock(mutex_);
  return ledger_;
}

DeviceBatch LandingQueue::last() const {
  MutexLock lock(mutex_);
  return last_;
}

WaitStatistics LandingQueue::waits() const {
  MutexLock lock(mutex_);
  return waits_;
}

std::size_t LandingQueue::ready() const {
  MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(items_.begin(), items_.end(), [](const Item& item) { return !item.end; }));
}

}  // namespace millrace::device::detail
