#include "wds/detail/sample_fetch.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "io/base/for_each_on_threads.h"
#include "wds/detail/forward_reader.h"
#include "wds/detail/joiner.h"

namespace millrace::wds::detail {
namespace {

// A buffer's samples lie in few shards: the one that was open, and some before it.
constexpr std::size_t kShardsAtOnce = 4;

/// What is wanted of one shard: indexes into the refs, by their offsets.
struct WantedShard {
  ShardPiece piece;
  std::uint32_t shard = 0;
  std::vector<std::size_t> wanted = {};
};

std::vector<WantedShard> by_shard(const std::vector<StreamPosition::SampleRef>& refs,
                                  const std::function<ShardPiece(std::uint32_t shard)>& piece_of) {
  std::vector<std::size_t> order(refs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&refs](std::size_t a, std::size_t b) {
    return std::pair(refs[a].shard, refs[a].offset) < std::pair(refs[b].shard, refs[b].offset);
  });
  std::vector<WantedShard> shards;
  for (const std::size_t i : order) {
    if (shards.empty() || shards.back().shard != refs[i].shard)
      shards.push_back({.piece = piece_of(refs[i].shard), .shard = refs[i].shard});
    shards.back().wanted.push_back(i);
  }
  return shards;
}

/// The wanted samples of one shard. Threads: one at a time, beside those of other shards.
class ShardFetch {
 public:
  /// Where the first fault ends the stream, `failed` is set by it, and ends all that share it.
  ShardFetch(const WantedShard& shard, const PieceReader::Shared& shared, std::atomic<bool>& failed)
      : shard_(shard), shared_(shared), failed_(failed) {}

  void read(const std::vector<StreamPosition::SampleRef>& refs,
            std::vector<std::optional<BufferedSample>>& samples) {
    try {
      open();
    } catch (const Error& fault) {
      return lose(fault, shard_.wanted.size());
    }
    for (std::size_t n = 0; n < shard_.wanted.size() && !failed_; ++n) {
      const std::size_t place = shard_.wanted[n];
      try {
        samples[place] = sample_at(refs[place]);
        count(1);
      } catch (const Error& fault) {
        failed_ = failed_ || shared_.ledger.policy().on_fault == OnFault::kFail;
        if (!can_go_on(fault)) return lose(fault, shard_.wanted.size() - n);
        lose(fault, 1);
      }
    }
  }
  void tell(FetchedSamples& all) const {
    all.bytes += reader_ ? reader_->bytes() : 0;
    all.bytes += joiner_ ? joiner_->bytes() : 0;
    all.lost.insert(all.lost.end(), lost_.begin(), lost_.end());
    if (reader_) shared_.ledger.count_refetched(shard_.piece.url, reader_->refetched());
  }

 private:
  // Faulty samples are not among those wanted, so their faults must not stop this pass; nor must
  // what is behind the shard's end, which is told by whoever reads to there.
  void open() {
    ShardOptions options = shared_.spec.shard;
    options.index = PieceReader::index_of(shared_, shard_.piece);
    options.lenient = true;
    if (options.tar.behind_end == BehindEnd::kFault) options.tar.behind_end = BehindEnd::kCount;
    reader_.emplace(shard_.piece.url, shared_.opener, options);
    if (shared_.spec.found.joins)
      joiner_.emplace(*shared_.spec.found.joins, shard_.piece.url, shared_.opener,
                      shared_.spec.shard, &shared_.ledger);
  }

  BufferedSample sample_at(const StreamPosition::SampleRef& ref) {
    BufferedSample found{reader_->at(ref.offset), ref.shard};
    if (joiner_) joiner_->complete(found.sample);
    return found;
  }

  // A source that fails would fail, after as long a wait, for every other sample.
  bool can_go_on(const Error& fault) const {
    return !failed_ && !reader_->is_broken() &&
           (fault.code() == ErrorCode::kCorrupt || fault.code() == ErrorCode::kTruncated ||
            fault.code() == ErrorCode::kUnsupported || fault.code() == ErrorCode::kExhausted);
  }

  void lose(const Error& fault, std::size_t samples) {
    if (fault.code() == ErrorCode::kCancelled) throw fault;
    lost_.push_back({.fault = fault, .samples = samples});
    count(samples);
  }

  void count(std::size_t samples) const {
    if (shared_.spec.restored != nullptr) *shared_.spec.restored += samples;
  }

  const WantedShard& shard_;
  const PieceReader::Shared& shared_;
  std::atomic<bool>& failed_;
  std::optional<ForwardReader> reader_;
  std::optional<Joiner> joiner_;
  std::vector<FetchedSamples::Lost> lost_;
};

}  // namespace

FetchedSamples fetch_samples(const std::vector<StreamPosition::SampleRef>& refs,
                             const std::function<ShardPiece(std::uint32_t shard)>& piece_of,
                             const PieceReader::Shared& shared) {
  std::vector<std::optional<BufferedSample>> samples(refs.size());
  const std::vector<WantedShard> shards = by_shard(refs, piece_of);
  std::vector<ShardFetch> fetches;
  fetches.reserve(shards.size());
  std::atomic<bool> failed{false};
  for (const WantedShard& shard : shards) fetches.emplace_back(shard, shared, failed);
  for_each_on_threads(shards.size(), kShardsAtOnce,
                      [&](std::size_t i) { fetches[i].read(refs, samples); });
  FetchedSamples all;
  all.samples.reserve(samples.size());
  for (std::optional<BufferedSample>& one : samples)
    if (one) all.samples.push_back(*std::move(one));
  for (const ShardFetch& fetch : fetches) fetch.tell(all);
  return all;
}

}  // namespace millrace::wds::detail
