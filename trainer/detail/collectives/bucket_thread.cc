#include "trainer/detail/collectives/bucket_thread.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include "io/base/threads.h"

namespace millrace::trainer::detail {

BucketThread::BucketThread(std::size_t buckets, std::function<void(std::size_t)> work)
    : buckets_(buckets),
      work_(std::move(work)),
      allowed_(buckets),
      done_(buckets),
      thread_(
          start_thread("to sum gradients", [this](const std::stop_token& stop) { run(stop); })) {}

BucketThread::~BucketThread() { thread_.request_stop(); }

void BucketThread::begin() {
  const MutexLock lock(mutex_);
  allowed_ = 0;
  done_ = 0;
}

void BucketThread::allow(std::size_t n) {
  const MutexLock lock(mutex_);
  n = std::min(n, buckets_);
  if (n <= allowed_) return;
  allowed_ = n;
  changed_.notify_all();
}

bool BucketThread::has_done(std::size_t n) {
  const MutexLock lock(mutex_);
  return done_ >= n;
}

void BucketThread::wait_for(std::size_t n) {
  MutexLock lock(mutex_);
  while (done_ < n && !error_) changed_.wait(lock);
  if (error_) std::rethrow_exception(error_);
}

void BucketThread::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.notify_all();
  });
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (done_ >= allowed_ || error_) {
      changed_.wait(lock);
      continue;
    }
    const std::size_t bucket = done_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ++done_;
    changed_.notify_all();
  }
}

}  // namespace millrace::trainer::detail
