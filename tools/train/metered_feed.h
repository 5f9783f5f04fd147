// MeteredFeed: a LoaderFeed that says at any moment what it holds and has done.
//
// Of shards that come over the network the verdict on an epoch says so: "input-bound by read over
// the network".
//
// Threads: as a Feed; state() from any, but not beside the destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "io/base/thread_annotations.h"
#include "tools/train/wrapped_feed.h"
#include "trainer/feed.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::tools {

/// What verdicts call a stage: "read over the network".
std::string shown_stage(const std::string& name, bool over_network);

class MeteredFeed final : public WrappedFeed {
 public:
  /// `feed` is borrowed. `over_network`: its reading is named so where it limits a run.
  explicit MeteredFeed(trainer::LoaderFeed& feed, bool over_network = false)
      : WrappedFeed(feed), feed_(feed), over_network_(over_network) {}

  std::unique_ptr<trainer::EpochFeed> open(std::uint32_t epoch,
                                           const pipeline::Position* from) override;
  void plan_epochs(std::int64_t end) override;
  /// Nullopt before the first open(); while another one is in progress, what was before it, so that
  /// nobody who looks then finds an input gone. Its counters rise over all pipelines that the feed
  /// has had, and stand still after the last planned epoch.
  std::optional<trainer::InputState> state() const;

 private:
  class Epoch;

  std::optional<trainer::InputState> now() const MILLRACE_REQUIRES(mutex_);
  void end_epoch(std::uint32_t epoch);

  trainer::LoaderFeed& feed_;
  const bool over_network_;
  std::atomic<std::int64_t> taken_ = 0;  ///< samples, by the devices, of the present pipeline
  mutable Mutex mutex_;
  /// The feed's, while it may be looked at: from the end of an open() to the next one.
  const pipeline::Pipeline* pipeline_ MILLRACE_GUARDED_BY(mutex_) = nullptr;
  std::optional<trainer::InputState> last_ MILLRACE_GUARDED_BY(mutex_);
  /// Of the pipelines before the present one.
  pipeline::Statistics before_ MILLRACE_GUARDED_BY(mutex_);
  std::int64_t end_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< of the planned epochs; 0: no end
};

}  // namespace millrace::tools
