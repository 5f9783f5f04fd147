#include "tools/train/metered_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "pipeline/pipeline.h"

namespace millrace::tools {

std::string shown_stage(const std::string& name, bool over_network) {
  return name == "read" && over_network ? name + " over the network" : name;
}

/// Counts what the devices take.
class MeteredFeed::Epoch final : public WrappedEpochFeed {
 public:
  Epoch(std::unique_ptr<trainer::EpochFeed> feed, std::atomic<std::int64_t>& taken,
        bool over_network)
      : WrappedEpochFeed(std::move(feed)), taken_(taken), over_network_(over_network) {}

  bool next(int replica, pipeline::Batch& batch) override {
    const bool more = WrappedEpochFeed::next(replica, batch);
    if (more) taken_ += batch.num_valid;
    return more;
  }
  std::string busiest_stage() const override {
    return shown_stage(WrappedEpochFeed::busiest_stage(), over_network_);
  }

 private:
  std::atomic<std::int64_t>& taken_;
  const bool over_network_;
};

// A pipeline that goes on counts on; a new one begins at 0.
std::unique_ptr<trainer::EpochFeed> MeteredFeed::open(std::uint32_t epoch,
                                                      const pipeline::Position* from) {
  const auto elapsed = [this] {
    return feed_.pipeline() == nullptr ? std::chrono::nanoseconds(0)
                                       : feed_.pipeline()->statistics().elapsed;
  };
  const auto before = elapsed();
  {
    MutexLock lock(mutex_);
    last_ = now();
    pipeline_ = nullptr;
  }
  auto opened = WrappedFeed::open(epoch, from);
  if (elapsed() < before) taken_ = 0;
  MutexLock lock(mutex_);
  pipeline_ = feed_.pipeline();
  return std::make_unique<Epoch>(std::move(opened), taken_, over_network_);
}

std::optional<trainer::InputState> MeteredFeed::state() const {
  MutexLock lock(mutex_);
  return now();
}

// Batches that are dropped on their way to the devices are not known of.
std::optional<trainer::InputState> MeteredFeed::now() const {
  if (pipeline_ == nullptr) return last_;
  trainer::InputState state{.statistics = pipeline_->statistics()};
  const auto handed_out = static_cast<std::int64_t>(state.statistics.samples);
  if (pipeline_->options().batch.uneven != pipeline::Uneven::kDrop)
    state.landed_samples = std::max<std::int64_t>(0, handed_out - taken_);
  return state;
}

}  // namespace millrace::tools
