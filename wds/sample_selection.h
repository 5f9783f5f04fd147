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
// sampling). The draws' order is the permutation's.
//
// Only the fields that are looked at are read. Buffers: 16 bytes per sample that is kept. Threads:
// const, from any.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "io/opener.h"
#include "wds/permutation.h"
#include "wds/sample_access.h"
#include "wds/sample_stream.h"

namespace millrace::wds {

/// Throws: InvalidArgument for expressions that are none, and for balance beside weight. Opens
/// nothing.
void check_selection(const ShuffleOptions& options);

class SampleSelection {
 public:
  /// `numbers` of samples, and the share of each; none: each once.
  SampleSelection(std::vector<std::uint64_t> numbers, const std::vector<double>& shares,
                  std::uint64_t draws, std::uint64_t filtered);

  /// Of a pass.
  std::uint64_t draws() const { return draws_; }
  /// The sample of a draw. Requires: draw < draws().
  std::uint64_t number(std::uint64_t draw, const PermutationKey& key) const;
  std::uint64_t kept() const { return numbers_.size(); }
  /// Samples that the filter left out.
  std::uint64_t filtered() const { return filtered_; }
  /// How many of the set's samples [first, first + count) are kept.
  std::uint64_t kept_in(std::uint64_t first, std::uint64_t count) const;
  /// Of these samples, as a selection of a set that begins with sample `begin`. Requires: no
  /// shares; begin <= first.
  std::shared_ptr<const SampleSelection> part(std::uint64_t first, std::uint64_t count,
                                              std::uint64_t begin) const;
  std::uint64_t num_bytes() const { return (numbers_.size() + ends_.size()) * sizeof(double); }

 private:
  std::vector<std::uint64_t> numbers_;
  std::vector<double> ends_;  ///< where each share ends among the draws; empty: each is one draw
  std::uint64_t draws_;
  std::uint64_t filtered_;
};

struct SelectionRun {
  /// Which of the set's samples are looked at.
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  /// Draws of a pass, where there are shares; 0: as many as samples are kept.
  std::uint64_t draws = 0;
  std::stop_token stop = {};
};

/// Reads what the options look at of all samples, on several threads. A sample that is damaged is
/// kept: its fault is reported when it is drawn. Throws: InvalidArgument, NotFound (no sample is
/// kept), Corrupt with the key, Cancelled.
std::shared_ptr<const SampleSelection> find_selection(const io::Opener& opener,
                                                      const std::shared_ptr<const SetContents>& set,
                                                      const ShuffleOptions& options,
                                                      const SelectionRun& run);

}  // namespace millrace::wds
