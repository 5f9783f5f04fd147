// GradientReducer: sums the replicas' gradients in buckets while backward still runs.
//
// The flat gradient buffer is cut into buckets of fixed bounds, front to back, which is the order
// in which backward finishes them. Each rank owns a slice of each bucket (owned()), and updates the
// weights only there.
//
//   const auto reducer = backend.make_reducer(gradients, *group[rank], {});
//   reducer->begin();
//   plan.backward([&](std::size_t ready) { reducer->gradients_ready(ready); });
//   reducer->wait();
//   for (Range range : reducer->owned()) ...
//
// Each backend has its own; BucketReducer is the one for gradients in the host's memory.
//
// Threads: one at a time; nothing else may use the group.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/collectives.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {

namespace detail {
class BucketThread;
}

struct GradientReducerOptions {
  /// Floats in each bucket except the last; rounded up to a multiple of 16.
  std::size_t bucket_floats = std::size_t{1024} * 1024;
};

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// The ranges that are summed at a time: they tile the gradients, and a rank owns its
  /// Collectives::slice() of each.
  virtual const std::vector<Range>& buckets() const = 0;
  /// The ranges whose sums this rank holds after wait(), bounds at multiples of 16.
  virtual const std::vector<Range>& owned() const = 0;
  /// Starts a step: no gradient is ready.
  virtual void begin() = 0;
  /// The first `n` floats are final on this rank; `n` never decreases within a step.
  virtual void gradients_ready(std::size_t n) = 0;
  /// Returns when every bucket is summed; the rest of the gradients counts as ready. Throws: what
  /// the collective threw.
  virtual void wait() = 0;
};

/// A thread of the reducer's own sums finished buckets over the ranks. The last one is summed by
/// wait() itself: backward is over by then, and another thread would only add two wake-ups. With
/// one bucket, or one rank, there is no thread.
class BucketReducer final : public GradientReducer {
 public:
  /// `gradients` and `group` are borrowed and must outlive the reducer.
  BucketReducer(std::span<float> gradients, Collectives& group,
                const GradientReducerOptions& options = {});
  /// Waits for a running collective: abort the group first if other ranks may not join it.
  ~BucketReducer() override;
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  /// False if there is nothing to sum while backward runs.
  bool has_thread() const { return thread_ != nullptr; }

  const std::vector<Range>& buckets() const override { return buckets_; }
  const std::vector<Range>& owned() const override { return owned_; }
  void begin() override;
  void gradients_ready(std::size_t n) override;
  void wait() override;

 private:
  void reduce(Range bucket);

  std::span<float> gradients_;
  Collectives& group_;
  std::vector<Range> buckets_;
  std::vector<Range> owned_;
  std::size_t ready_ = 0;  ///< buckets ready on this rank
  /// For all buckets but the last.
  std::unique_ptr<detail::BucketThread> thread_;
};

}  // namespace millrace::trainer
