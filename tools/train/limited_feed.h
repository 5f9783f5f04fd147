// LimitedFeed: a Feed whose epochs end after a number of batches per replica, for debugging.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/topology.h"
#include "tools/train/wrapped_feed.h"

namespace millrace::tools {

class LimitedFeed final : public WrappedFeed {
 public:
  /// `feed` is borrowed; a `limit` of 0 means no limit.
  LimitedFeed(trainer::Feed& feed, std::int64_t limit, const Topology& topology)
      : WrappedFeed(feed), limit_(limit), topology_(topology) {}

  std::unique_ptr<trainer::EpochFeed> open(std::uint32_t epoch,
                                           const pipeline::Position* from) override {
    auto opened = WrappedFeed::open(epoch, from);
    if (limit_ == 0) return opened;
    const std::int64_t slots = batch_size() * topology_.world_size();
    const std::int64_t done = from == nullptr ? 0 : from->slots / slots;
    return std::make_unique<Epoch>(std::move(opened), std::max<std::int64_t>(0, limit_ - done),
                                   static_cast<std::size_t>(topology_.devices));
  }
  std::int64_t steps_per_epoch() const override {
    const std::int64_t steps = WrappedFeed::steps_per_epoch();
    return limit_ == 0 ? steps : std::min(steps, limit_);  // 0: unknown
  }

 private:
  class Epoch final : public WrappedEpochFeed {
   public:
    Epoch(std::unique_ptr<trainer::EpochFeed> feed, std::int64_t limit, std::size_t replicas)
        : WrappedEpochFeed(std::move(feed)), left_(replicas, limit) {}

    bool next(int replica, pipeline::Batch& batch) override {
      std::int64_t& left = left_[static_cast<std::size_t>(replica)];
      return left > 0 && left-- > 0 && WrappedEpochFeed::next(replica, batch);
    }

   private:
    std::vector<std::int64_t> left_;  // per replica
  };

  std::int64_t limit_;
  Topology topology_;
};

}  // namespace millrace::tools
