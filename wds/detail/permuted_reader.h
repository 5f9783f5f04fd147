// PermutedReader: one stream of Order::kPermutation: every S-th sample of a permutation of the set.
//
// Buffers: one block. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "io/base/error.h"
#include "wds/fault_ledger.h"
#include "wds/permutation.h"
#include "wds/sample_access.h"
#include "wds/sample_selection.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

class PermutedReader {
 public:
  /// `opener` and `ledger` are borrowed. Requires: spec.found.contents.
  PermutedReader(const StreamSpec& spec, const io::Opener& opener, FaultLedger& ledger);

  /// As SampleStream::next(). Losses that may be skipped, and the selection's damaged samples, are
  /// left to report_lost(): of what is read ahead a mix may have no use.
  bool next(SampleBlock& block);
  /// Tells the ledger of those that come with the stream's first `taken` numbers, once each.
  void report_lost(std::uint64_t taken);
  /// Goes on after `taken` numbers, of which `given` samples came out.
  void restore(const StreamPosition& position);
  StreamPosition position() const;

 private:
  std::vector<std::uint64_t> next_numbers();
  std::uint64_t place_of(std::uint64_t drawn) const;
  bool has_more() const;
  /// Whether all of its samples were lost, one after the other: further passes fill up no length.
  bool gives_nothing() const { return most_ > 0 && barren_ > cycle_; }
  void add(std::vector<std::optional<Sample>>& found, SampleBlock& block);
  bool may_wait(const Error& fault) const;
  void lose(std::uint64_t number, const Error& fault);
  void report_damaged(std::uint64_t taken);
  std::uint64_t damaged_at(std::uint64_t taken) const;
  StreamPosition position_at(std::uint64_t taken) const;

  SampleAccess access_;
  FaultLedger& ledger_;
  const PermutationKey key_;
  const std::uint64_t first_;    // the stream's number
  const std::uint64_t step_;     // S
  const std::uint64_t cycle_;    // numbers after which all of its samples have come
  const std::uint64_t end_;      // numbers of all passes
  const std::uint64_t most_;     // StreamSpec::max_samples
  const std::uint64_t skipped_;  // samples in front of the range
  const std::uint64_t copies_;   // slots in a row that a sample has
  const std::shared_ptr<const SampleSelection> selection_;
  Permutation order_;
  std::uint64_t pass_ = 0;  // of order_
  std::uint64_t taken_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t reported_ = 0;  // of the stream's share of the selection's damaged samples
  std::uint64_t barren_ = 0;    // numbers since the last sample
  std::multimap<std::uint64_t, Error> unreported_ = {};  // lost samples, by their numbers
  bool ended_ = false;
  bool lost_more_ = false;  // by OnFault::kStop
};

}  // namespace millrace::wds::detail
