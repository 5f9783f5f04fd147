// Mix: streams of several sets become one, each with its share of the samples.
//
// Shares are exact by construction: sample k of stream s comes from the set that is number s + k in
// a sequence in which each set keeps its share of every prefix (Sainte-Laguë's divisors: the set
// with the least (2 n + 1) / weight, n being how often it was taken). So is each round of the
// streams' slots. The sequence has a period of the weights' sum as whole numbers; it depends on
// nothing else, so a stream's position is those of its parts.
//
// Set i gives stream s its own stream s + r mod S, where r is the number of samples of the sets
// before it: where every sample is read equally often, the mixed streams differ by at most one.
//
// A set has as many passes as StreamSpec::passes says, which go on as those of a set alone,
// before it has no sample left. Sets that are resampled have no end, and need no counts.
//
// Threads: free functions and values; a MixedStream by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/words.h"
#include "wds/sample_stream.h"

namespace millrace::wds {

/// What happens when a set has no sample left.
enum class MixEnd {
  /// The epoch ends: no sample is repeated, the other sets are not read to their ends. Where faults
  /// cost a set samples, those of the others take their places.
  kStop,
  kRepeat,  ///< it starts over, drawn anew, until each set had its passes, or as `samples` says
  kDrop,    ///< the others continue, by their weights, until every set had its passes
};
inline constexpr std::array<Word<MixEnd>, 3> kMixEndWords = {
    {{"stop", MixEnd::kStop}, {"repeat", MixEnd::kRepeat}, {"drop", MixEnd::kDrop}}};

/// Whole numbers up to 10^6 in the proportions of `weights`, without a common divisor; rounded for
/// weights that are not decimals of up to six places. Throws: InvalidArgument for a weight that is
/// not above 0 and finite, or so small beside the others that it would be 0.
std::vector<std::uint64_t> whole_weights(std::span<const double> weights);

/// Which set is next.
class MixTurns {
 public:
  /// Begins at number `first` of the sequence.
  MixTurns(std::vector<std::uint64_t> weights, std::uint64_t first);

  /// The next set of those that were not dropped; nullopt if all were.
  std::optional<std::size_t> next();
  /// Takes next()'s choice.
  void take(std::size_t set) { ++taken_[set]; }
  /// As so many take()s of set `set` alone would: for a position.
  void skip(std::size_t set, std::uint64_t times) { taken_[set] += times; }
  void drop(std::size_t set) { dropped_[set] = true; }

 private:
  std::vector<std::uint64_t> weights_;
  std::vector<std::uint64_t> taken_;
  std::vector<bool> dropped_;
};

/// One of the sets.
struct MixPart {
  /// `stream` and `max_samples` are set by MixedStream. With counts, unless it is resampled, as
  /// either all or no sets are.
  StreamSpec spec;
  double weight = 1;
};

/// Samples of an epoch of the mix over all its streams, where no set is resampled. Requires:
/// `samples`, of each set in all its passes. Throws: InvalidArgument for more of them than can be
/// counted, over 10^12 at any weights.
std::uint64_t mix_length(std::span<const double> weights, std::span<const std::uint64_t> samples,
                         int num_streams, MixEnd end);

/// One stream of a mix, as SampleStream.
class MixedStream {
 public:
  struct Options {
    std::vector<MixPart> parts = {};
    MixEnd end = MixEnd::kStop;
    int stream = 0;
    int num_streams = 1;
    /// The length of this stream: its share of mix_length(), or of any number with kRepeat and
    /// of resampled sets, which may have no end.
    std::uint64_t samples = 0;
  };
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  /// `opener` and `ledger` are borrowed. `start`: where to continue, an earlier position(); null:
  /// at the beginning. Throws: InvalidArgument, also for a position of another number of sets.
  MixedStream(const Options& options, const StreamPosition* start, const io::Opener& opener,
              FaultLedger& ledger, const std::stop_token& stop = {});

  bool next(SampleBlock& block);
  /// StreamPosition::parts has one position per set.
  StreamPosition position() const;
  bool is_draining() const;
  void prefill(std::size_t samples, std::size_t bytes);
  std::uint64_t restored_bytes() const;

 private:
  bool next_sample(Sample& sample, std::size_t& part);

  std::uint64_t length_;
  std::vector<double> shares_;
  MixTurns turns_;
  std::vector<SampleStream> parts_;
  std::uint64_t samples_out_ = 0;
  bool may_be_cut_;         ///< kStop: the policy for faults ends it, too
  bool cut_short_ = false;  ///< by that
};

}  // namespace millrace::wds
