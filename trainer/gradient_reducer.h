// GradientReducer: sums the replicas' gradients in buckets while backward still runs.
//
// The flat gradient buffer is cut into buckets of fixed bounds, front to back, which is the order
// in which backward finishes them. A finished bucket goes to a thread of the reducer's own, which
// sums it over the ranks; each rank keeps its slice of each bucket (owned()), and updates the
// weights there and nowhere else. The last bucket is summed by wait() itself: backward is over, and
// handing it on would only cost the two threads' wake-ups. With one bucket, or one rank, there is
// no thread.
//
//   GradientReducer reducer(gradients, *group[rank]);
//   reducer.begin();
//   plan.backward([&](std::size_t ready) { reducer.gradients_ready(ready); });
//   reducer.wait();
//   for (Range range : reducer.owned()) optimizer.update(update, range);
//
// Threads: one at a time; the group belongs to the reducer alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#include "io/base/thread_annotations.h"
#include "trainer/collectives.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {

struct GradientReducerOptions {
  /// Floats in a bucket but the last; rounded up to a multiple of 16.
  std::size_t bucket_floats = std::size_t{1024} * 1024;
};

class GradientReducer {
 public:
  /// `gradients` and `group` are borrowed and outlive the reducer.
  GradientReducer(std::span<float> gradients, Collectives& group,
                  const GradientReducerOptions& options = {});
  /// Waits for a collective in flight: abort the group first when others may not come.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  const std::vector<Range>& buckets() const { return buckets_; }
  /// False where there is nothing to sum while backward runs.
  bool has_thread() const { return thread_.joinable(); }
  /// The ranges whose sums this rank holds after wait().
  const std::vector<Range>& owned() const { return owned_; }

  /// Starts a step: no gradient is ready.
  void begin();
  /// The first `n` floats are final on this rank.
  void gradients_ready(std::size_t n);
  /// Returns when every bucket is summed; what is left of the gradients counts as ready.
  /// Throws: what the collective threw.
  void wait();
  /// What this rank has waited for others, as Collectives::peer_wait().
  std::chrono::nanoseconds peer_wait() const { return group_.peer_wait(); }

 private:
  void run(const std::stop_token& stop);
  void reduce(Range bucket);
  /// Buckets that the thread sums.
  std::size_t num_handed_on() const { return buckets_.empty() ? 0 : buckets_.size() - 1; }

  std::span<float> gradients_;
  Collectives& group_;
  std::vector<Range> buckets_;
  std::vector<Range> owned_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t ready_ MILLRACE_GUARDED_BY(mutex_) = 0;    ///< buckets ready on this rank
  std::size_t reduced_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< buckets summed
  std::exception_ptr error_ MILLRACE_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace millrace::trainer
