#include "wds/detail/shard_sequence.h"

#include <array>
#include <span>

#include "io/base/check.h"
#include "io/base/rng.h"
#include "wds/detail/python_random.h"
#include "wds/detail/webdataset_shuffle.h"

namespace millrace::wds {
namespace {

std::uint64_t webdataset_seed(const StreamSpec& spec) {
  return spec.shuffle.seed + (spec.shuffle.detshuffle ? spec.epoch : 0);
}

std::vector<std::string> divided(const std::vector<std::string>& shards, const StreamSpec& spec) {
  std::vector<std::string> own;
  const auto step = static_cast<std::size_t>(spec.num_streams);
  for (auto i = static_cast<std::size_t>(spec.stream); i < shards.size(); i += step) {
    own.push_back(shards[i]);
  }
  return own;
}

std::vector<std::string> in_webdataset_order(const StreamSpec& spec) {
  // WebDataset(shardshuffle=n) gathers 100 urls before the first goes out, whatever n is.
  constexpr std::int64_t kInitialShards = 100;
  if (!spec.shuffle.shards) return divided(*spec.shards, spec);
  const std::uint64_t seed = webdataset_seed(spec);
  if (spec.shuffle.shard_buffer > 0) {
    return detail::buffer_shuffled(divided(*spec.shards, spec), spec.shuffle.shard_buffer,
                                   kInitialShards, seed);
  }
  std::vector<std::string> shards = *spec.shards;
  detail::PythonRandom(seed).shuffle(std::span(shards));
  return divided(shards, spec);
}

std::vector<std::string> in_own_order(const StreamSpec& spec) {
  if (!spec.shuffle.shards) return divided(*spec.shards, spec);
  std::vector<std::string> shards = *spec.shards;
  KeyedRng rng({.seed = spec.shuffle.seed, .epoch = spec.epoch, .purpose = Purpose::kShardShuffle});
  shuffle(std::span(shards), rng);
  return divided(shards, spec);
}

// WebDataset's make_seed: s = (s * 31 + x) & 0x7fffffff.
std::uint64_t make_seed(const std::array<std::uint64_t, 3>& parts) {
  std::uint64_t seed = 0;
  for (const std::uint64_t part : parts) seed = (seed * 31 + part) & 0x7FFFFFFFU;
  return seed;
}

std::uint64_t resampling_seed(const StreamSpec& spec) {
  const int rank = spec.stream % spec.world;
  const int worker = spec.stream / spec.world;
  return make_seed(
      {static_cast<std::uint64_t>(rank * 1000 + worker), spec.epoch, spec.shuffle.seed});
}

}  // namespace

std::vector<std::string> stream_shards(const StreamSpec& spec) {
  MILLRACE_CHECK(spec.shards != nullptr, "a stream has a list of shards");
  MILLRACE_CHECK(spec.stream >= 0 && spec.stream < spec.num_streams, "the stream is one of S");
  return spec.shuffle.order == Order::kMillrace ? in_own_order(spec) : in_webdataset_order(spec);
}

namespace detail {

ShardSequence::ShardSequence(const StreamSpec& spec) : spec_(spec), rng_(resampling_seed(spec)) {
  if (!spec.resampled) shards_ = stream_shards(spec);
}

const std::string* ShardSequence::at(std::size_t index) {
  if (round() == 0) return nullptr;
  if (spec_.resampled) return &(*spec_.shards)[draw(index)];
  if (index >= shards_.size() && spec_.max_samples == 0) return nullptr;
  return &shards_[index % shards_.size()];
}

std::size_t ShardSequence::draw(std::size_t index) {
  const std::size_t count = spec_.shards->size();
  if (spec_.shuffle.order == Order::kMillrace) {
    return KeyedRng({.seed = spec_.shuffle.seed,
                     .epoch = spec_.epoch,
                     .stream = static_cast<std::uint32_t>(spec_.stream),
                     .index = index,
                     .purpose = Purpose::kResampleShards})
        .below(count);
  }
  while (drawn_.size() <= index) drawn_.push_back(static_cast<std::uint32_t>(rng_.below(count)));
  return drawn_[index];
}

}  // namespace detail
}  // namespace millrace::wds
