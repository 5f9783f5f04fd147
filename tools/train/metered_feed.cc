#include "tools/train/metered_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "pipeline/pipeline.h"

namespace millrace::tools {

std::string shown_stage(const std::string& name, bool over_network) {
  return name == "read" && over_network ? name + " over the network" : name;
}

namespace {

/// The counters of both; what is held is the later one's.
pipeline::Statistics joined_counters(const pipeline::Statistics& before, pipeline::Statistics sum) {
  for (pipeline::StageStatistics& stage : sum.stages) {
    const auto earlier =
        std::ranges::find(before.stages, stage.name, &pipeline::StageStatistics::name);
    if (earlier == before.stages.end()) continue;
    stage.items += earlier->items;
    stage.bytes += earlier->bytes;
    stage.busy += earlier->busy;
    stage.waiting += earlier->waiting;
  }
  sum.consumer_wait += before.consumer_wait;
  sum.batches += before.batches;
  sum.samples += before.samples;
  sum.skipped += before.skipped;
  sum.refetched += before.refetched;
  return sum;
}

}  // namespace

/// Counts what the devices take.
class MeteredFeed::Epoch final : public WrappedEpochFeed {
 public:
  Epoch(std::unique_ptr<trainer::EpochFeed> feed, MeteredFeed& all, std::uint32_t epoch)
      : WrappedEpochFeed(std::move(feed)), all_(all), epoch_(epoch) {}
  ~Epoch() override { all_.end_epoch(epoch_); }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  bool next(int replica, pipeline::Batch& batch) override {
    const bool more = WrappedEpochFeed::next(replica, batch);
    if (more) all_.taken_ += batch.num_valid;
    return more;
  }
  std::string busiest_stage() const override {
    return shown_stage(WrappedEpochFeed::busiest_stage(), all_.over_network_);
  }

 private:
  MeteredFeed& all_;
  const std::uint32_t epoch_;
};

void MeteredFeed::plan_epochs(std::int64_t end) {
  {
    MutexLock lock(mutex_);
    end_ = end;
  }
  WrappedFeed::plan_epochs(end);
}

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
  MutexLock lock(mutex_);
  if (elapsed() < before) {
    taken_ = 0;
    if (last_) before_ = last_->statistics;
  }
  pipeline_ = feed_.pipeline();
  return std::make_unique<Epoch>(std::move(opened), *this, epoch);
}

// A pipeline that has nothing more to do would go on counting how long its stages wait.
void MeteredFeed::end_epoch(std::uint32_t epoch) {
  MutexLock lock(mutex_);
  if (end_ == 0 || static_cast<std::int64_t>(epoch) + 1 < end_) return;
  last_ = now();
  pipeline_ = nullptr;
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
  state.statistics = joined_counters(before_, std::move(state.statistics));
  if (pipeline_->options().batch.uneven != pipeline::Uneven::kDrop)
    state.landed_samples = std::max<std::int64_t>(0, handed_out - taken_);
  return state;
}

}  // namespace millrace::tools
