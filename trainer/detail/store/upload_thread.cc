#include "trainer/detail/store/upload_thread.h"

#include <chrono>
#include <utility>

#include "io/base/error.h"
#include "io/base/threads.h"

namespace millrace::trainer::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMostDue = 2;
// Machines that are taken back leave half a minute.
constexpr std::chrono::seconds kGrace{20};
// How soon a wait sees that a stop was requested.
constexpr std::chrono::milliseconds kStopLook{100};

std::exception_ptr too_late(const Error& cancelled) {
  return std::make_exception_ptr(
      Error(ErrorCode::kIo, "not uploaded within the 20 s after the run's end was requested",
            cancelled.where()));
}

}  // namespace

UploadThread::~UploadThread() {
  {
    std::unique_lock lock(mutex_);
    hurried_ = true;
    changed_.notify_all();
    wait(lock, true, [this] { return is_idle(); });
    ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void UploadThread::add(Job job) {
  std::unique_lock lock(mutex_);
  wait(lock, false, [this] { return failure_ || !is_full(); });
  throw_failure();
  put(SteadyClock::now(), std::move(job));
}

void UploadThread::add_later(Clock::Duration delay, Job job) {
  const std::lock_guard lock(mutex_);
  throw_failure();
  put(SteadyClock::now() + delay, std::move(job));
}

void UploadThread::finish() {
  std::unique_lock lock(mutex_);
  hurried_ = true;
  changed_.notify_all();
  wait(lock, false, [this] { return is_idle(); });
  hurried_ = false;
  throw_failure();
}

void UploadThread::put(Time due, Job job) {
  if (!thread_.joinable()) thread_ = start_thread("to upload", [this] { work(); });
  jobs_.emplace(due, std::move(job));
  changed_.notify_all();
}

void UploadThread::throw_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

bool UploadThread::is_full() const {
  const auto due = std::distance(jobs_.begin(), jobs_.upper_bound(SteadyClock::now()));
  return static_cast<std::size_t>(due) + (running_ ? 1 : 0) >= kMostDue;
}

void UploadThread::wait(std::unique_lock<std::mutex>& lock, bool limited,
                        const std::function<bool()>& until) {
  const SteadyClock::time_point begin = SteadyClock::now();
  SteadyClock::time_point end = SteadyClock::time_point::max();
  while (!until()) {
    const auto now = SteadyClock::now();
    const bool last = limited || stop_.stop_requested();
    if (last && end == SteadyClock::time_point::max()) end = now + kGrace;
    if (now >= end) cancel_.request_stop();
    changed_.wait_for(lock, kStopLook);
    if (!waits_ || limited) continue;
    lock.unlock();
    waits_(SteadyClock::now() - begin);
    lock.lock();
  }
}

void UploadThread::work() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (run_next(lock)) continue;
    if (jobs_.empty()) {
      changed_.wait(lock);
    } else {
      const Time due = jobs_.begin()->first;
      changed_.wait_until(lock, due);
    }
  }
}

bool UploadThread::run_next(std::unique_lock<std::mutex>& lock) {
  if (jobs_.empty() || (!hurried_ && jobs_.begin()->first > SteadyClock::now())) return false;
  const Job job = std::move(jobs_.extract(jobs_.begin()).mapped());
  running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    job(cancel_.get_token());
  } catch (const Error& error) {
    failure = error.code() == ErrorCode::kCancelled ? too_late(error) : std::current_exception();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  running_ = false;
  if (failure) {
    failure_ = failure;
    jobs_.clear();
  }
  changed_.notify_all();
  return true;
}

}  // namespace millrace::trainer::detail
