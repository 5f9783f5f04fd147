#include "trainer/gradient_reducer.h"

#include <algorithm>
#include <mutex>
#include <stop_token>
#include <utility>

namespace millrace::trainer {
namespace {

std::vector<Range> cut(std::size_t floats, std::size_t bucket_floats) {
  const std::size_t step = std::max<std::size_t>(16, (bucket_floats + 15) / 16 * 16);
  std::vector<Range> buckets;
  for (std::size_t at = 0; at < floats; at += step) {
    buckets.push_back({at, std::min(floats, at + step)});
  }
  return buckets;
}

}  // namespace

BucketReducer::BucketReducer(std::span<float> gradients, Collectives& group,
                             const GradientReducerOptions& options)
    : gradients_(gradients), group_(group), buckets_(cut(gradients.size(), options.bucket_floats)) {
  for (const Range& bucket : buckets_) {
    const auto [begin, end] = group.slice(bucket.size(), group.rank());
    if (begin < end) owned_.push_back({bucket.begin + begin, bucket.begin + end});
  }
  if (group.world() == 1 || num_handed_on() == 0) return;
  reduced_ = ready_ = num_handed_on();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

BucketReducer::~BucketReducer() { thread_.request_stop(); }

void BucketReducer::begin() {
  const MutexLock lock(mutex_);
  ready_ = 0;
  reduced_ = 0;
}

void BucketReducer::gradients_ready(std::size_t n) {
  if (group_.world() == 1) return;
  const MutexLock lock(mutex_);
  std::size_t ready = ready_;
  while (ready < num_handed_on() && buckets_[ready].end <= n) ++ready;
  if (ready == ready_) return;
  ready_ = ready;
  changed_.notify_all();
}

void BucketReducer::wait() {
  if (group_.world() == 1 || buckets_.empty()) return;
  gradients_ready(gradients_.size());
  {
    MutexLock lock(mutex_);
    while (reduced_ < num_handed_on() && !error_) changed_.wait(lock);
    if (error_) std::rethrow_exception(error_);
  }
  reduce(buckets_.back());
}

void BucketReducer::reduce(Range bucket) {
  group_.reduce_scatter(gradients_.subspan(bucket.begin, bucket.size()));
}

void BucketReducer::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.notify_all();
  });
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (reduced_ >= ready_ || error_) {
      changed_.wait(lock);
      continue;
    }
    const Range bucket = buckets_[reduced_];
    lock.unlock();
    std::exception_ptr error;
    try {
      reduce(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ++reduced_;
    changed_.notify_all();
  }
}

}  // namespace millrace::trainer
