#include "trainer/detail/step/weight_gather.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer::detail {

WeightGather::WeightGather(ComposedBackend& backend, DeviceSpan weights, std::vector<Range> buckets,
                           Collectives& group, std::span<const ValueRange> rounded)
    : backend_(backend),
      weights_(weights),
      buckets_(std::move(buckets)),
      group_(group),
      rounded_(rounded.begin(), rounded.end()),
      thread_(buckets_.size(),
              [this](std::size_t done) { gather(buckets_[buckets_.size() - 1 - done]); }) {}

void WeightGather::gather(const Range& bucket) {
  std::vector<ValueRange> rounded;
  for (const auto& [begin, end] : rounded_) {
    const std::size_t first = std::max(begin, bucket.begin);
    const std::size_t last = std::min(end, bucket.end);
    if (first < last) rounded.emplace_back(first - bucket.begin, last - bucket.begin);
  }
  backend_.all_gather_rounded(weights_.subspan(bucket.begin, bucket.size()), rounded, group_);
}

void WeightGather::begin() {
  thread_.begin();
  thread_.allow(buckets_.size());
}

std::size_t WeightGather::buckets_behind(std::size_t offset) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(buckets_, [&](const Range& bucket) { return bucket.end > offset; }));
}

}  // namespace millrace::trainer::detail
