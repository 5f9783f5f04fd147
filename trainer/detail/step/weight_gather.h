// WeightGather: copies the updated weights to the other processes while the next step's forward
// pass already runs.
//
// A replica's ranges of each bucket are gathered from back to front: the order in which forward
// reads the buckets, since backward finishes them from front to back.
//
//   WeightGather gather(backend, weights, reducer.buckets(), group);
//   gather.begin();                                       // after the update
//   plan.forward(inputs, mode, [&](std::size_t offset) { gather.wait_for(offset); });
//   gather.wait_for(0);                                   // before the weights are written again
//
// Threads: one at a time, its replica's.
#pragma once

#include <span>
#include <vector>

#include "trainer/collectives.h"
#include "trainer/composed_backend.h"
#include "trainer/detail/collectives/bucket_thread.h"

namespace millrace::trainer::detail {

class WeightGather {
 public:
  /// Borrows backend, weights and `group`, which nothing else may use.
  /// `rounded`: the weights that plans read rounded to bf16, ascending; they travel as bf16 if the
  /// backend knows them to have the same bits then. Those of other processes are bf16 values
  /// afterwards, until gathered exactly.
  WeightGather(ComposedBackend& backend, DeviceSpan weights, std::vector<Range> buckets,
               Collectives& group, std::span<const ValueRange> rounded = {});

  /// Starts to copy. A collective.
  void begin();
  /// Whether the weights at and behind `offset` are those of all processes.
  bool has(std::size_t offset) { return thread_.has_done(buckets_behind(offset)); }
  /// Returns when has(offset). Throws: what the collective threw.
  void wait_for(std::size_t offset) { thread_.wait_for(buckets_behind(offset)); }

 private:
  void gather(const Range& bucket);
  std::size_t buckets_behind(std::size_t offset) const;

  ComposedBackend& backend_;
  DeviceSpan weights_;
  std::vector<Range> buckets_;
  Collectives& group_;
  std::vector<ValueRange> rounded_;
  BucketThread thread_;
};

}  // namespace millrace::trainer::detail
