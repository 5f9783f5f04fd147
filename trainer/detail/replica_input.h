// ReplicaInput: one replica's batches of an epoch's feed. What the feed throws is kept for the next
// vote of all replicas, so that they end after the same step; after its end, or a failure, the feed
// is not called again.
//
// Threads: the replica's device's own thread.
#pragma once

#include "pipeline/batch.h"
#include "trainer/detail/failure.h"
#include "trainer/feed.h"

namespace millrace::trainer::detail {

class ReplicaInput {
 public:
  /// `failure` keeps what the feed throws; both are borrowed. `device`: of this process.
  ReplicaInput(EpochFeed& feed, Failure& failure, int device)
      : feed_(feed), failure_(failure), device_(device) {}

  /// Waits for the next batch, unless the feed has ended or failed.
  void next() {
    if (has_ended_) return;
    failed_ = true;
    failure_.guard([&] {
      has_batch_ = feed_.next(device_, batch_);
      failed_ = false;
    });
    has_ended_ = failed_ || !has_batch_;
    has_batch_ = !has_ended_;
  }

  /// Of the last next().
  bool has_batch() const { return has_batch_; }
  bool failed() const { return failed_; }
  const pipeline::Batch& batch() const { return batch_; }

 private:
  EpochFeed& feed_;
  Failure& failure_;
  int device_;
  pipeline::Batch batch_;
  bool has_batch_ = false;
  bool has_ended_ = false;
  bool failed_ = false;
};

}  // namespace millrace::trainer::detail
