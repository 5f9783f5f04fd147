// WrappedFeed and WrappedEpochFeed: another feed, for those that change a part of one.
//
// What a feed has is passed on here alone, so that none of it is lost in one of them.
//
// Threads: as trainer::Feed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trainer/feed.h"

namespace millrace::tools {

class WrappedFeed : public trainer::Feed {
 public:
  /// `feed` is borrowed.
  explicit WrappedFeed(trainer::Feed& feed) : feed_(feed) {}

  std::unique_ptr<trainer::EpochFeed> open(std::uint32_t epoch,
                                           const pipeline::Position* from) override {
    return feed_.open(epoch, from);
  }
  void plan_epochs(std::int64_t end) override { feed_.plan_epochs(end); }
  void set_landing(const device::Landing& landing) override { feed_.set_landing(landing); }
  std::optional<pipeline::DataIdentity> identity() const override { return feed_.identity(); }
  std::int64_t batch_size() const override { return feed_.batch_size(); }
  std::int64_t steps_per_epoch() const override { return feed_.steps_per_epoch(); }

 private:
  trainer::Feed& feed_;
};

class WrappedEpochFeed : public trainer::EpochFeed {
 public:
  explicit WrappedEpochFeed(std::unique_ptr<trainer::EpochFeed> feed) : feed_(std::move(feed)) {}

  bool next(int replica, pipeline::Batch& batch) override { return feed_->next(replica, batch); }
  void stop() override { feed_->stop(); }
  bool drops_uneven() const override { return feed_->drops_uneven(); }
  std::string busiest_stage() const override { return feed_->busiest_stage(); }
  std::string advice() const override { return feed_->advice(); }
  std::int64_t skipped_samples() const override { return feed_->skipped_samples(); }
  trainer::ReadSamples read_samples() const override { return feed_->read_samples(); }
  wds::FaultPolicy fault_policy() const override { return feed_->fault_policy(); }
  std::int64_t refetched() const override { return feed_->refetched(); }
  trainer::InputReport report() override { return feed_->report(); }

 private:
  std::unique_ptr<trainer::EpochFeed> feed_;
};

}  // namespace millrace::tools
