// SampleStream: one logical stream of an epoch, as a pure function of its StreamSpec.
//
// An epoch's shards are shuffled by (seed, epoch) and divided: shard i belongs to stream i mod S. A
// stream reads its shards in order and passes the samples through its shuffle buffer. Which
// samples, in which order, depends on the spec alone: never on threads, timing or processes.
//
//   SampleStream stream(spec, opener, ledger);
//   for (SampleBlock block; stream.next(block);) use(block);
//
// Order: as the spec says. Buffers: the shuffle buffer, at most `buffer_samples` samples and
// `buffer_bytes` bytes, and one block. Threads: one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/rng.h"
#include "io/base/words.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/found_shards.h"
#include "wds/sample.h"
#include "wds/shard_reader.h"
#include "wds/split.h"
#include "wds/stream_position.h"

namespace millrace::wds {

/// How epochs are ordered: millrace's way (global shuffle, then division, keyed by epoch), or bit
/// for bit as WebDataset 1.0.2 (division, then CPython's shuffles).
/// kPermutation is an exact shuffle of all samples without a buffer: slot j is number j of a
/// permutation keyed by (seed, epoch), whatever the number of streams, and each sample is read by
/// its place; it needs FoundShards::contents, and of ShuffleOptions the seed alone applies.
enum class Order { kMillrace, kWebDataset, kPermutation };
inline constexpr std::array<Word<Order>, 3> kOrderWords = {{{"millrace", Order::kMillrace},
                                                            {"webdataset", Order::kWebDataset},
                                                            {"permutation", Order::kPermutation}}};

/// Of a shuffle of samples: in a stream's buffer, and before shards are written.
inline constexpr Purpose kSampleShuffle{2};

struct ShuffleOptions {
  /// Whether the shard list is shuffled.
  bool shards = false;
  /// Samples in each stream's shuffle buffer; 0 or 1: off.
  std::int64_t buffer_samples = 0;
  /// kMillrace only: shards of each stream that are read in turn, a sample each, in front of the
  /// buffer. So shards that hold one class each are mixed. At least 1.
  int open_shards = 1;
  /// kPermutation only: repeated augmentation. Each sample that is drawn comes so many times, in
  /// slots that follow each other, each with random transforms of its own; an epoch has as many
  /// slots as without, and other samples in each. At least 1.
  int copies = 1;
  /// The buffer's limit in payload bytes, including those that ShardOptions::suffixes leaves out.
  /// It affects the order, so it must not depend on timing or on the fields wanted.
  std::size_t buffer_bytes = std::size_t{256} * 1024 * 1024;
  /// kWebDataset only: samples gathered before the first is returned.
  std::int64_t initial_samples = 100;
  std::uint64_t seed = 0;
  Order order = Order::kMillrace;
  /// kWebDataset only: n > 0 shuffles each stream's shards as WebDataset(shardshuffle=n) does; 0
  /// shuffles the whole list before its division, as SimpleShardList(seed=) does.
  std::int64_t shard_buffer = 100;
  /// kWebDataset only: a different order each epoch (seed + epoch). Default: the same every epoch.
  bool detshuffle = false;
  /// kWebDataset, resampled: WebDataset seeds a stream's draws by its process and worker, which
  /// follow from the number of processes; this one, for a run that goes on with another number
  /// than it began with. 0: those that share the epoch.
  int seed_processes = 0;
  /// kPermutation only: which samples an epoch draws, and how often (wds/sample_selection.h).
  /// SampleFilter's expression; empty: all samples.
  std::string where = {};
  /// "classes" (the field cls), or a value as SampleFilter names it: each of its values gets the
  /// same share. Empty: no shares.
  std::string balance = {};
  /// A value as SampleFilter names it, or a file of lines "KEY WEIGHT": each sample's share. Empty:
  /// all have the same.
  std::string weight = {};

  /// Whether some samples are left out, or drawn more often than others.
  bool chooses() const { return !where.empty() || !balance.empty() || !weight.empty(); }
};

/// Some of a list's samples, in the list's order: `take` of them behind the first `skip`.
struct SampleRange {
  std::uint64_t skip = 0;
  std::uint64_t take = 0;  ///< 0: all that follow

  bool is_all() const { return skip == 0 && take == 0; }
  /// How many of `total` samples are in it.
  std::uint64_t of(std::uint64_t total) const;

  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

struct StreamSpec {
  std::shared_ptr<const std::vector<std::string>> shards;  ///< the whole epoch's list, unshuffled
  ShuffleOptions shuffle = {};
  int num_streams = 1;  ///< S
  int stream = 0;       ///< 0 <= stream < num_streams
  std::uint32_t epoch = 0;
  /// Draws shards with replacement, endlessly unless `max_samples` is set.
  bool resampled = false;
  /// Length of the stream's epoch: the stream repeats or stops early to give exactly this many
  /// samples. 0: one pass. No sample repeats before all were seen: the shuffle buffer is emptied
  /// between two passes. With `found.counts`, a set of fewer samples than streams goes on, as for
  /// `passes`.
  std::uint64_t max_samples = 0;
  /// Passes over the samples, in each of which the shards come in the same order and the shuffle
  /// buffer draws anew: as WebDataset's repeat(n). With `max_samples`, which they may end before,
  /// as its slice(). 0: one, or as many as `max_samples` takes. With `found.counts`, each pass
  /// goes on where the one before ended (passes_go_on()); else a stream has the same samples in all
  /// of them.
  std::uint32_t passes = 0;
  /// For splitters and for kWebDataset's seed of resampled streams: process = stream mod processes.
  int processes = 1;
  /// Looks for each shard's index and checks every sample against it. A shard whose index is
  /// damaged is read without it, the same samples in the same order, with a warning.
  bool indexed = false;
  /// The part of the list that is the epoch's, before anything is shuffled. Requires
  /// `found.counts`, or `found.contents`, unless it is all.
  SampleRange range = {};
  /// Of `shards`.
  FoundShards found = {};
  /// As in SplitOptions; if one is set, whole shards are divided regardless of `found.counts`.
  ShardSplitter process_splitter = {};
  ShardSplitter worker_splitter = {};
  /// How each shard is read; `offset` and `stop` are set by the stream.
  ShardOptions shard = {};
  /// Goes up with each sample of the shuffle buffer that is read again, or cannot be, to continue
  /// at a position. Borrowed; null: nobody counts.
  std::atomic<std::uint64_t>* restored = nullptr;
};

/// Whether each pass begins at the stream behind that of the last sample of the pass before, so
/// that streams differ by at most one sample in the whole epoch: where samples are divided, there
/// is more than one pass, and they do not divide evenly. Then a stream has other samples in each.
bool passes_go_on(const StreamSpec& spec);

/// Consecutive samples of a stream, passed on together.
struct SampleBlock {
  static constexpr std::size_t kMaxSamples = 64;
  static constexpr std::size_t kMaxBytes = std::size_t{1024} * 1024;
  std::vector<Sample> samples;
  std::size_t num_bytes = 0;  ///< the fields' payload bytes
  /// The positions after each of the samples; null: there is only the one after the block.
  std::shared_ptr<const StreamTrail> trail = {};

  void add(Sample sample) {
    if (samples.capacity() == 0) samples.reserve(kMaxSamples);
    num_bytes += sample.num_bytes();
    samples.push_back(std::move(sample));
  }
  /// True when nothing more should be added: kMaxSamples or kMaxBytes is reached.
  bool full() const { return samples.size() >= kMaxSamples || num_bytes >= kMaxBytes; }
};

/// The urls of one stream this epoch, in reading order. Requires: not resampled. Throws:
/// InvalidArgument if the counts do not match the shards, or a splitter leaves the stream without
/// shards.
std::vector<std::string> stream_shards(const StreamSpec& spec);

class SampleStream {
 public:
  /// `opener` and `ledger` are borrowed and outlive the stream. `stop` cancels next().
  SampleStream(StreamSpec spec, const io::Opener& opener, FaultLedger& ledger,
               std::stop_token stop = {});
  /// Continues at `position`, which came from a stream of the same spec.
  SampleStream(StreamSpec spec, const StreamPosition& position, const io::Opener& opener,
               FaultLedger& ledger, std::stop_token stop = {});
  ~SampleStream();
  SampleStream(SampleStream&&) noexcept;
  SampleStream& operator=(SampleStream&&) noexcept;

  /// Fills `block` and returns true; false at the end. Throws: as the policy decides; Cancelled.
  bool next(SampleBlock& block);
  /// The next sample alone; false at the end. Requires: not Order::kPermutation.
  bool next(Sample& sample);
  /// How the samples that next(Sample&) gave since the last call changed the position.
  std::shared_ptr<const StreamTrail> take_trail();
  /// The position after the last block, or sample.
  StreamPosition position() const;
  /// True if all has been read, and what next() still returns comes from the shuffle buffer.
  bool is_draining() const;
  /// Before the first next(): reads into the shuffle buffer ahead of it, at most so many samples
  /// and bytes. The order stays as it is. Throws: as next().
  void prefill(std::size_t samples, std::size_t bytes);
  /// Bytes of shards that were read again to continue at a position.
  std::uint64_t restored_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
