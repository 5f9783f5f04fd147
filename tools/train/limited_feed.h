// LimitedFeed: a Feed whose epochs end after a number of batches per replica, for debugging.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "trainer/feed.h"

namespace millrace::tools {

class LimitedFeed final : public trainer::Feed {
 public:
  /// `feed` is borrowed; a `limit` of 0 means no limit.
  LimitedFeed(trainer::Feed& feed, std::int64_t limit, const Topology& topology)
      : feed_(feed), limit_(limit), topology_(topology) {}

  std::unique_ptr<trainer::EpochFeed> open(std::uint32_t epoch,
                                           const pipeline::Position* from) override {
    auto opened = feed_.open(epoch, from);
    if (limit_ == 0) return opened;
    const std::int64_t slots = batch_size() * topology_.world_size();
    const std::int64_t done = from == nullptr ? 0 : from->slots / slots;
    return std::make_unique<Epoch>(std::move(opened), std::max<std::int64_t>(0, limit_ - done),
                                   static_cast<std::size_t>(topology_.devices));
  }
  void plan_epochs(std::int64_t end) override { feed_.plan_epochs(end); }
  void set_landing(const device::Landing& landing) override { feed_.set_landing(landing); }
  std::optional<pipeline::DataIdentity> identity() const override { return feed_.identity(); }
  std::int64_t batch_size() const override { return feed_.batch_size(); }
  std::int64_t steps_per_epoch() const override {
    const std::int64_t steps = feed_.steps_per_epoch();
    return limit_ == 0 || steps == 0 ? std::max(steps, limit_) : std::min(steps, limit_);
  }

 private:
  class Epoch final : public trainer::EpochFeed {
   public:
    Epoch(std::unique_ptr<trainer::EpochFeed> feed, std::int64_t limit, std::size_t replicas)
        : feed_(std::move(feed)), left_(replicas, limit) {}

    bool next(int replica, pipeline::Batch& batch) override {
      std::int64_t& left = left_[static_cast<std::size_t>(replica)];
      return left > 0 && left-- > 0 && feed_->next(replica, batch);
    }
    void stop() override { feed_->stop(); }
    bool drops_uneven() const override { return feed_->drops_uneven(); }
    std::string busiest_stage() const override { return feed_->busiest_stage(); }
    std::int64_t skipped_samples() const override { return feed_->skipped_samples(); }
    std::int64_t refetched() const override { return feed_->refetched(); }
    trainer::InputReport report() override { return feed_->report(); }

   private:
    std::unique_ptr<trainer::EpochFeed> feed_;
    std::vector<std::int64_t> left_;  // per replica
  };

  trainer::Feed& feed_;
  std::int64_t limit_;
  Topology topology_;
};

}  // namespace millrace::tools
