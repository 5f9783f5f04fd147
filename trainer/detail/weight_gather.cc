#include "trainer/detail/weight_gather.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer::detail {

WeightGather::WeightGather(Backend& backend, DeviceSpan weights, std::vector<Range> buckets,
                           Collectives& group)
    : backend_(backend),
      weights_(weights),
      buckets_(std::move(buckets)),
      group_(group),
      thread_(buckets_.size(), [this](std::size_t done) {
        const Range& bucket = buckets_[buckets_.size() - 1 - done];
        backend_.all_gather(weights_.subspan(bucket.begin, bucket.size()), group_);
      }) {}

void WeightGather::begin() {
  thread_.begin();
  thread_.allow(buckets_.size());
}

std::size_t WeightGather::buckets_behind(std::size_t offset) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(buckets_, [&](const Range& bucket) { return bucket.end > offset; }));
}

}  // namespace millrace::trainer::detail
