#include "wds/detail/shard_sequence.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "wds/detail/python_random.h"
#include "wds/detail/webdataset_shuffle.h"
#include "wds/split.h"

namespace millrace::wds {
namespace {

constexpr Purpose kShardShuffle{1};
constexpr Purpose kResampleShards{3};

std::uint64_t webdataset_seed(const StreamSpec& spec) {
  return spec.shuffle.seed + (spec.shuffle.detshuffle ? spec.epoch : 0);
}

bool has_splitter(const StreamSpec& spec) { return spec.process_splitter || spec.worker_splitter; }

// Divides by the user's splitters; a missing one defaults to WebDataset's.
std::vector<std::string> split_by_user(std::vector<std::string> shards, const StreamSpec& spec) {
  const SplitPart process{.index = spec.stream % spec.processes, .count = spec.processes};
  const SplitPart worker{.index = spec.stream / spec.processes,
                         .count = spec.num_streams / spec.processes};
  shards = spec.process_splitter ? spec.process_splitter(shards, process)
                                 : split_by_process(shards, process.index, process.count);
  shards = spec.worker_splitter ? spec.worker_splitter(shards, worker)
                                : split_by_worker(shards, worker.index, worker.count);
  if (!shards.empty()) return shards;
  throw Error(ErrorCode::kInvalidArgument,
              "the splitters leave no shard for worker " + std::to_string(worker.index) + " of " +
                  std::to_string(worker.count) + " of process " + std::to_string(process.index) +
                  " of " + std::to_string(process.count));
}

std::vector<std::string> divided(const std::vector<std::string>& shards, const StreamSpec& spec) {
  if (has_splitter(spec)) return split_by_user(shards, spec);
  std::vector<std::string> own;
  const auto step = static_cast<std::size_t>(spec.num_streams);
  for (auto i = static_cast<std::size_t>(spec.stream); i < shards.size(); i += step) {
    own.push_back(shards[i]);
  }
  return own;
}

std::vector<std::string> in_webdataset_order(const StreamSpec& spec) {
  // WebDataset(shardshuffle=n) gathers 100 urls before it returns the first, whatever n is.
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

std::vector<std::size_t> epoch_order(const StreamSpec& spec) {
  std::vector<std::size_t> order(spec.shards->size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!spec.shuffle.shards) return order;
  KeyedRng rng({.seed = spec.shuffle.seed, .epoch = spec.epoch, .purpose = kShardShuffle});
  shuffle(std::span(order), rng);
  return order;
}

std::vector<detail::ShardPiece> whole_shards(const StreamSpec& spec) {
  const std::vector<std::size_t> order = epoch_order(spec);
  std::vector<detail::ShardPiece> pieces;
  const auto step = static_cast<std::size_t>(spec.num_streams);
  for (auto i = static_cast<std::size_t>(spec.stream); i < order.size(); i += step) {
    pieces.push_back({.url = (*spec.shards)[order[i]]});
  }
  return pieces;
}

std::vector<detail::ShardPiece> shards_by_user(const StreamSpec& spec) {
  std::vector<std::string> shards;
  for (const std::size_t i : epoch_order(spec)) shards.push_back((*spec.shards)[i]);
  std::vector<detail::ShardPiece> pieces;
  for (std::string& url : split_by_user(std::move(shards), spec)) {
    pieces.push_back({.url = std::move(url)});
  }
  return pieces;
}

struct SampleRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// What of each shard is in the range.
std::vector<SampleRun> parts_of(const std::vector<std::uint64_t>& counts,
                                const SampleRange& range) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t end = std::min(range.skip, total) + range.of(total);
  std::vector<SampleRun> parts;
  std::uint64_t at = 0;
  for (const std::uint64_t count : counts) {
    const std::uint64_t first = std::clamp(range.skip, at, at + count);
    const std::uint64_t last = std::clamp(end, at, at + count);
    parts.push_back({.first = first - at, .count = last - std::min(first, last)});
    at += count;
  }
  return parts;
}

std::uint64_t samples_in_range(const StreamSpec& spec) {
  const std::vector<std::uint64_t>& counts = *spec.found.counts;
  return spec.range.of(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

// WebDataset's make_seed: s = (s * 31 + x) & 0x7fffffff.
std::uint64_t make_seed(const std::array<std::uint64_t, 3>& parts) {
  std::uint64_t seed = 0;
  for (const std::uint64_t part : parts) seed = (seed * 31 + part) & 0x7FFFFFFFU;
  return seed;
}

std::uint64_t resampling_seed(const StreamSpec& spec) {
  const int process = spec.stream % spec.processes;
  const int worker = spec.stream / spec.processes;
  return make_seed(
      {static_cast<std::uint64_t>(process * 1000 + worker), spec.epoch, spec.shuffle.seed});
}

}  // namespace

std::vector<std::string> stream_shards(const StreamSpec& spec) {
  std::vector<std::string> shards;
  for (detail::ShardPiece& piece : detail::stream_pieces(spec)) {
    shards.push_back(std::move(piece.url));
  }
  return shards;
}

bool passes_go_on(const StreamSpec& spec) {
  if (spec.resampled || spec.shuffle.order == Order::kWebDataset || has_splitter(spec) ||
      !spec.found.counts)
    return false;
  const auto streams = static_cast<std::uint64_t>(spec.num_streams);
  const std::uint64_t samples = samples_in_range(spec);
  if (samples == 0 || samples % streams == 0) return false;
  if (spec.passes > 0) return spec.passes > 1;
  return spec.max_samples > 0 && (samples < streams || spec.shuffle.order == Order::kPermutation);
}

namespace detail {

EpochRuns::EpochRuns(const StreamSpec& spec) : spec_(spec) {
  const std::vector<std::uint64_t>& counts = *spec.found.counts;
  if (counts.size() != spec.shards->size()) {
    throw Error(ErrorCode::kInvalidArgument, "sample counts of " + std::to_string(counts.size()) +
                                                 " shards for a list of " +
                                                 std::to_string(spec.shards->size()));
  }
  MILLRACE_CHECK(!spec.found.scans || spec.found.scans->size() == counts.size(),
                 "a scan, or none, a shard");
  const std::vector<SampleRun> parts = parts_of(counts, spec.range);
  for (const std::size_t shard : epoch_order(spec)) {
    if (parts[shard].count == 0) continue;
    order_.push_back(shard);
    ends_.push_back(num_samples() + parts[shard].count);
    if (parts[shard].first == 0) continue;
    cut_shard_ = shard;
    cut_ = parts[shard].first;
  }
}

// The first streams get the extra sample: so slot j belongs to stream j mod S until the epoch's
// end, and replicas, which take slots in turn, also differ by at most one sample.
std::uint64_t EpochRuns::bound(std::uint64_t run) const {
  const auto runs = static_cast<std::uint64_t>(spec_.num_streams);
  return num_samples() / runs * run + std::min(run, num_samples() % runs);
}

EpochRuns::Places EpochRuns::places(std::uint64_t run) const {
  const std::uint64_t begin = bound(run);
  const std::uint64_t end = bound(run + 1);
  if (begin == end) return {};
  const auto place = [this](auto at) { return static_cast<std::size_t>(at - ends_.begin()); };
  return {.first = place(std::upper_bound(ends_.begin(), ends_.end(), begin)),
          .last = place(std::lower_bound(ends_.begin(), ends_.end(), end)) + 1};
}

std::size_t EpochRuns::num_pieces(std::uint64_t run) const {
  const Places found = places(run);
  return found.last - found.first;
}

ShardPiece EpochRuns::piece(std::size_t place, std::uint64_t begin, std::uint64_t end) const {
  const std::size_t shard = order_[place];
  const std::uint64_t at = place == 0 ? 0 : ends_[place - 1];
  const std::uint64_t first = std::max(begin, at);
  const std::uint64_t last = std::min(end, ends_[place]);
  const std::uint64_t left_out = cut_ > 0 && shard == cut_shard_ ? cut_ : 0;
  const std::uint64_t count = (*spec_.found.counts)[shard];
  return {.url = (*spec_.shards)[shard],
          .first = left_out + (first - at),
          .count = last - first == count ? 0 : last - first,
          .to_end = left_out + (last - at) == count,
          .scan = spec_.found.scans ? (*spec_.found.scans)[shard] : nullptr};
}

std::vector<ShardPiece> EpochRuns::pieces(std::uint64_t run) const {
  const Places found = places(run);
  std::vector<ShardPiece> pieces;
  for (std::size_t place = found.first; place < found.last; ++place)
    pieces.push_back(piece(place, bound(run), bound(run + 1)));
  return pieces;
}

std::vector<ShardPiece> stream_pieces(const StreamSpec& spec) {
  MILLRACE_CHECK(spec.shards != nullptr, "a stream has a list of shards");
  MILLRACE_CHECK(spec.stream >= 0 && spec.stream < spec.num_streams, "the stream is one of S");
  if (spec.shuffle.order != Order::kWebDataset) {
    if (has_splitter(spec)) return shards_by_user(spec);
    if (!spec.found.counts) return whole_shards(spec);
    return EpochRuns(spec).pieces(static_cast<std::uint64_t>(spec.stream));
  }
  std::vector<ShardPiece> pieces;
  for (std::string& url : in_webdataset_order(spec)) pieces.push_back({.url = std::move(url)});
  return pieces;
}

ShardSequence::ShardSequence(const StreamSpec& spec) : spec_(spec), rng_(resampling_seed(spec)) {
  if (spec.resampled) return;
  if (passes_go_on(spec)) {
    runs_.emplace(spec);
    pieces_ = runs_->pieces(visit(0).run);
  } else {
    pieces_ = stream_pieces(spec);
  }
}

std::size_t ShardSequence::round() const {
  if (spec_.resampled) return spec_.shards->size();
  return runs_ ? spec_.shards->size() + static_cast<std::size_t>(spec_.num_streams)
               : pieces_.size();
}

std::optional<ShardPiece> ShardSequence::at(std::size_t index) {
  if (round() == 0 || index == kEnd) return {};
  if (spec_.resampled) return ShardPiece{.url = (*spec_.shards)[draw(index)]};
  if (runs_) return piece_of_visit(index);
  const std::size_t passes = spec_.passes > 0 || spec_.max_samples > 0 ? spec_.passes : 1;
  if (passes > 0 && index / pieces_.size() >= passes) return {};
  return pieces_[index % pieces_.size()];
}

bool ShardSequence::begins_pass(std::size_t index) {
  if (index == 0 || index == kEnd || round() == 0) return false;
  if (!runs_) return index % pieces_.size() == 0;
  return runs_->num_samples() < static_cast<std::uint64_t>(spec_.num_streams) ||
         begins_[find_visit(index)] == index;
}

// Slot j of the epoch is number j mod N of pass j / N, and of stream j mod S. So in each pass the
// stream has the run at whose slots its turns are, and no pass ends for it before the others. With
// fewer samples than streams that is one sample, in some of the passes.
ShardSequence::Visit ShardSequence::visit(std::uint64_t number) const {
  const auto streams = static_cast<std::uint64_t>(spec_.num_streams);
  const auto stream = static_cast<std::uint64_t>(spec_.stream);
  const std::uint64_t samples = runs_->num_samples();
  if (samples >= streams) {
    const std::uint64_t turned = samples % streams * (number % streams) % streams;
    return {.pass = number, .run = (stream + streams - turned) % streams};
  }
  const std::uint64_t slot = stream + number * streams;
  return {.pass = slot / samples, .run = slot % samples};
}

std::optional<ShardPiece> ShardSequence::piece_of_visit(std::size_t index) {
  const std::size_t number = find_visit(index);
  const Visit found = visit(number);
  if (spec_.passes > 0 && found.pass >= spec_.passes) return {};
  if (number != std::exchange(visited_, number)) pieces_ = runs_->pieces(found.run);
  return pieces_[index - (begins_.empty() ? number : begins_[number])];
}

/// The one with the piece at `index`.
std::size_t ShardSequence::find_visit(std::size_t index) {
  if (runs_->num_samples() < static_cast<std::uint64_t>(spec_.num_streams)) return index;
  if (begins_.empty()) begins_.push_back(0);
  while (begins_.back() <= index)
    begins_.push_back(begins_.back() + runs_->num_pieces(visit(begins_.size() - 1).run));
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), index);
  return static_cast<std::size_t>(behind - begins_.begin()) - 1;
}

std::size_t ShardSequence::draw(std::size_t index) {
  const std::size_t count = spec_.shards->size();
  if (spec_.shuffle.order == Order::kMillrace) {
    return KeyedRng({.seed = spec_.shuffle.seed,
                     .epoch = spec_.epoch,
                     .stream = static_cast<std::uint32_t>(spec_.stream),
                     .index = index,
                     .purpose = kResampleShards})
        .below(count);
  }
  while (drawn_.size() <= index) drawn_.push_back(static_cast<std::uint32_t>(rng_.below(count)));
  return drawn_[index];
}

}  // namespace detail
}  // namespace millrace::wds
