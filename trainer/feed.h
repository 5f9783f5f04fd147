// Feed: where a run's batches come from, an epoch at a time.
//
// The real one is a ParallelLoader over a pipeline (loader_feed.h); tests bring fakes. All replicas
// get the same number of batches; the end comes in the same round for all.
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/batch.h"
#include "pipeline/position.h"

namespace millrace::trainer {

/// One epoch's batches. Destroying it in mid-epoch takes under a second.
class EpochFeed {
 public:
  virtual ~EpochFeed() = default;

  /// The replica's next batch, and true; or false at the epoch's end. Waits for it.
  /// Threads: one thread a replica. Throws: what went wrong, to every replica.
  virtual bool next(int replica, pipeline::Batch& batch) = 0;
  /// The stage that held the input up so far, for the stall report: "decode"; may be empty.
  virtual std::string slowest_stage() const { return {}; }
};

/// Threads: one at a time.
class Feed {
 public:
  virtual ~Feed() = default;

  /// Opens `epoch` (from 0) at its beginning, or at `from`, a position of this epoch.
  virtual std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) = 0;
  /// Batches a replica gets in an epoch, where that is known before; 0 where not.
  virtual std::int64_t steps_per_epoch() const { return 0; }
};

}  // namespace millrace::trainer
