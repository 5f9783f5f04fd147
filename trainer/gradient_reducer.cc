#include "trainer/gradient_reducer.h"

#include <algorithm>

#include "trainer/detail/collectives/bucket_thread.h"

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
  if (group.world() == 1 || buckets_.size() < 2) return;
  thread_ = std::make_unique<detail::BucketThread>(
      buckets_.size() - 1, [this](std::size_t bucket) { reduce(buckets_[bucket]); });
}

BucketReducer::~BucketReducer() = default;

void BucketReducer::begin() {
  ready_ = 0;
  if (thread_) thread_->begin();
}

void BucketReducer::gradients_ready(std::size_t n) {
  if (!thread_) return;
  const std::size_t before = ready_;
  while (ready_ < thread_->buckets() && buckets_[ready_].end <= n) ++ready_;
  if (ready_ > before) thread_->allow(ready_);
}

void BucketReducer::wait() {
  if (group_.world() == 1 || buckets_.empty()) return;
  gradients_ready(gradients_.size());
  if (thread_) thread_->wait_for(thread_->buckets());
  reduce(buckets_.back());
}

void BucketReducer::reduce(Range bucket) {
  group_.reduce_scatter(gradients_.subspan(bucket.begin, bucket.size()));
}

}  // namespace millrace::trainer
