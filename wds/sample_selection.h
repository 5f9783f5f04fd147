// SampleSelection: which samples of a set an epoch draws, and how often: a filter over keys and
// small fields, and shares of classes or weights of samples, found once before the first epoch.
//
//   const auto chosen = find_selection(opener, contents, {.where = "json.score > 0.28"}, {.count =
//   contents->count}); chosen->number(Permutation(chosen->draws(), key).at(slot), key);   // a
//   sample's place in the set
//
// Without shares each sample that is kept is drawn once. With shares an epoch's draws are laid
// evenly over the samples, each as long as its share, from a start that is random in each epoch: so
// a sample is drawn as often as its share says, to within one, and so is a class (systematic
// sampling). The draws' order is the permutation's. An epoch that takes a part of a pass, or each
// sample several times (ShuffleOptions::copies), takes the first of these draws in that order: its
// shares are right on average.
//
// Of a mix, each set has shares of its own: a class has its share of its set's draws, whatever the
// other sets hold (wds/mix_draws.h says how many draws those are).
//
// Only the fields that are looked at are read. Buffers: 16 bytes per sample that is kept. Threads:
// const, from any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/permutation.h"
#include "wds/sample_access.h"
#include "wds/sample_stream.h"

namespace millrace::wds {

/// Throws: InvalidArgument for expressions that are none, which begins with the option's name
/// ("where 'cls = 3', column 5: ..."), and for balance beside weight. Opens nothing.
void check_selection(const ShuffleOptions& options);

/// Whether ShuffleOptions::weight is a file of weights, not a value's name.
bool is_weights_file(const std::string& weight);

class SampleSelection {
 public:
  /// A sample whose fields could not be looked at, and why.
  struct Damaged {
    std::uint64_t number = 0;
    Error fault;
  };
  struct Parts {
    std::vector<std::uint64_t> numbers;
    std::vector<double> shares = {};  ///< of each; none: each once
    std::uint64_t draws = 0;          ///< of a pass, where there are shares; 0: as many as numbers
    std::uint64_t filtered = 0;
    std::vector<Damaged> damaged = {};  ///< ascending
    std::string weights_sha256 = {};    ///< of the file of weights
  };
  explicit SampleSelection(Parts parts);

  /// Of a pass.
  std::uint64_t draws() const { return draws_; }
  /// The sample of a draw. Requires: draw < draws().
  std::uint64_t number(std::uint64_t draw, const PermutationKey& key) const;
  std::uint64_t kept() const { return numbers_.size(); }
  /// Samples that the filter left out.
  std::uint64_t filtered() const { return filtered_; }
  /// Samples that are left out because what says whether they are kept is damaged: each epoch's
  /// ledger lists them.
  const std::vector<Damaged>& damaged() const { return damaged_; }
  /// 16 hex digits: equal in every process, and after a resume, or else samples would come twice or
  /// never.
  const std::string& digest() const { return digest_; }
  /// In hex, of the file of weights; empty if there is none.
  const std::string& weights_sha256() const { return weights_sha256_; }
  /// How many of the set's samples [first, first + count) are kept.
  std::uint64_t kept_in(std::uint64_t first, std::uint64_t count) const;
  /// How many of them the filter left out.
  std::uint64_t filtered_in(std::uint64_t first, std::uint64_t count) const;
  bool has_shares() const { return !ends_.empty(); }
  /// Of these samples, as a selection of a set that begins with sample `begin`, with its own
  /// shares of `draws` draws of a pass; 0: as many as are kept. Requires: begin <= first; with
  /// shares, SelectionRun::borders at both of its ends. Throws: Corrupt, if its weights are all 0.
  std::shared_ptr<const SampleSelection> part(std::uint64_t first, std::uint64_t count,
                                              std::uint64_t begin, std::uint64_t draws = 0) const;
  std::uint64_t num_bytes() const { return (numbers_.size() + ends_.size()) * sizeof(double); }

 private:
  void divide(std::span<const double> shares);

  std::vector<std::uint64_t> numbers_;
  std::vector<double> ends_;  ///< where each share ends among the draws; empty: each is one draw
  std::uint64_t draws_;
  std::uint64_t filtered_;
  std::vector<Damaged> damaged_;
  std::string weights_sha256_;
  std::string digest_;
};

struct SelectionRun {
  /// Which of the set's samples are looked at.
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  /// Draws of a pass, where there are shares; 0: as many as samples are kept.
  std::uint64_t draws = 0;
  /// Of a mix: where each of its sets begins, and where it ends. Ascending; `balance` is between
  /// two of them.
  std::vector<std::uint64_t> borders = {};
  /// Whose policy decides about samples that cannot be looked at, and which counts those that can.
  /// Borrowed; null: such a sample is a fault.
  FaultLedger* ledger = nullptr;
  /// Whether other shards' fields are joined to the samples: those cannot be looked at.
  bool has_joins = false;
  std::stop_token stop = {};
};

/// Reads what the options look at of all samples, on several threads. One whose fields are damaged,
/// no JSON, or no group or weight is left out with OnFault::kSkip, and else a fault: an epoch that
/// has not begun cannot be stopped. What says nothing of the data (a server that does not answer, a
/// disk) is a fault with every policy. Throws: InvalidArgument (also where no sample is kept, and
/// for a field that no sample has, where it may be one of a joined shard), NotFound (of damaged
/// ones), Io, Cancelled, Exhausted (more is left out than the policy allows), and as
/// ShardReader::next(), with url, key and offset.
std::shared_ptr<const SampleSelection> find_selection(const io::Opener& opener,
                                                      const std::shared_ptr<const SetContents>& set,
                                                      const ShuffleOptions& options,
                                                      const SelectionRun& run);

}  // namespace millrace::wds
