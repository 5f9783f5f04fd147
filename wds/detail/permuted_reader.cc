#include "wds/detail/permuted_reader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "io/base/check.h"

namespace millrace::wds::detail {
namespace {

std::uint64_t share_of(std::uint64_t count, std::uint64_t first, std::uint64_t step) {
  return count <= first ? 0 : (count - first + step - 1) / step;
}

/// How many numbers the stream takes at most, if a pass has `samples` of them in all streams.
std::uint64_t end_of(const StreamSpec& spec, std::uint64_t samples) {
  constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max() / 2;
  if (spec.passes == 0 && spec.max_samples > 0) return kNoEnd;
  const std::uint64_t passes = std::max<std::uint32_t>(1, spec.passes);
  const std::uint64_t all = samples > kNoEnd / passes ? kNoEnd : samples * passes;
  return share_of(all, static_cast<std::uint64_t>(spec.stream),
                  static_cast<std::uint64_t>(spec.num_streams));
}

std::uint64_t samples_of(const StreamSpec& spec) {
  MILLRACE_CHECK(spec.found.contents != nullptr, "a permutation needs the set's contents");
  return spec.found.selection ? spec.found.selection->draws()
                              : spec.range.of(spec.found.contents->count);
}

}  // namespace

PermutedReader::PermutedReader(const StreamSpec& spec, const io::Opener& opener,
                               FaultLedger& ledger)
    : access_(opener, spec.found.contents, spec.shard, spec.found.joins, &ledger),
      ledger_(ledger),
      key_{.seed = spec.shuffle.seed, .epoch = spec.epoch},
      first_(static_cast<std::uint64_t>(spec.stream)),
      step_(static_cast<std::uint64_t>(spec.num_streams)),
      cycle_(samples_of(spec) / std::max<std::uint64_t>(1, std::gcd(samples_of(spec), step_))),
      end_(end_of(spec, samples_of(spec))),
      most_(spec.max_samples),
      skipped_(spec.range.skip),
      copies_(static_cast<std::uint64_t>(spec.shuffle.copies)),
      selection_(spec.found.selection),
      order_(samples_of(spec), key_) {}

std::uint64_t PermutedReader::place_of(std::uint64_t drawn) const {
  if (!selection_) return skipped_ + drawn;
  return selection_->number(drawn, {.seed = key_.seed, .epoch = key_.epoch, .pass = pass_});
}

void PermutedReader::restore(const StreamPosition& position) {
  taken_ = position.samples_in;
  given_ = position.samples_out;
  lost_more_ = position.lost.more;
  reported_ = damaged_at(taken_);
}

StreamPosition PermutedReader::position() const { return position_at(taken_); }

// Of the selection's damaged samples it has as many as report_damaged() and restore() take for
// reported, however far next() has read ahead.
StreamPosition PermutedReader::position_at(std::uint64_t taken) const {
  const std::uint64_t unselected = damaged_at(taken);
  return {.samples_out = given_,
          .samples_in = taken,
          .lost = {.samples = taken - given_ + unselected,
                   .more = lost_more_ || gives_nothing(),
                   .unselected = unselected}};
}

bool PermutedReader::has_more() const {
  if (ended_ || order_.size() == 0 || gives_nothing()) return false;
  return taken_ < end_ && (most_ == 0 || given_ < most_);
}

// A block's worth, by what the samples take in their shards: so a block depends on the position
// alone.
std::vector<std::uint64_t> PermutedReader::next_numbers() {
  std::vector<std::uint64_t> numbers;
  std::uint64_t bytes = 0;
  std::uint64_t left = std::min<std::uint64_t>(end_ - taken_, SampleBlock::kMaxSamples);
  if (most_ > 0) left = std::min(left, most_ - given_);
  while (numbers.size() < left && bytes < SampleBlock::kMaxBytes) {
    const std::uint64_t number = first_ + taken_ * step_;
    const std::uint64_t pass = number / order_.size();
    if (!numbers.empty() && pass != pass_) break;
    if (pass != pass_)
      order_ = Permutation(order_.size(), {.seed = key_.seed, .epoch = key_.epoch, .pass = pass});
    pass_ = pass;
    numbers.push_back(place_of(order_.at(number % order_.size() / copies_)));
    bytes += access_.contents().bytes_of(numbers.back());
    ++taken_;
  }
  return numbers;
}

void PermutedReader::add(std::vector<std::optional<Sample>>& found, SampleBlock& block) {
  auto trail = std::make_shared<StreamTrail>();
  const std::uint64_t before = taken_ - found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) continue;
    block.add(*std::move(found[i]));
    ++given_;
    trail->pass(position_at(before + i + 1));
  }
  block.trail = std::move(trail);
}

// The stream's share of them, spread over its first pass: what the ledgers of all processes have
// seen at any time has the set's rate of faults.
std::uint64_t PermutedReader::damaged_at(std::uint64_t taken) const {
  if (!selection_) return 0;
  const std::uint64_t own = share_of(selection_->damaged().size(), first_, step_);
  const std::uint64_t share = share_of(order_.size(), first_, step_);
  return taken >= share ? own : own * taken / share;
}

void PermutedReader::report_lost(std::uint64_t taken) {
  report_damaged(taken);
  const auto end = unreported_.lower_bound(taken);
  for (auto lost = unreported_.begin(); lost != end; lost = unreported_.erase(lost))
    ledger_.report(lost->second);
}

void PermutedReader::report_damaged(std::uint64_t taken) {
  for (const std::uint64_t due = damaged_at(taken); reported_ < due; ++reported_)
    ledger_.report(selection_->damaged()[first_ + reported_ * step_].fault);
}

bool PermutedReader::may_wait(const Error& fault) const {
  const FaultPolicy& policy = ledger_.policy();
  if (policy.on_fault != OnFault::kSkip || fault.code() == ErrorCode::kCancelled) return false;
  if (policy.max_fault_rate < 1) return false;
  return policy.max_faults < 0 ||
         unreported_.size() < static_cast<std::uint64_t>(policy.max_faults);
}

// One that ends the run or the stream, or may be one too many, does so at once.
void PermutedReader::lose(std::uint64_t number, const Error& fault) {
  if (may_wait(fault)) {
    unreported_.emplace(number, fault);
    return;
  }
  report_lost(number);
  if (ledger_.report(fault) == OnFault::kStop) ended_ = lost_more_ = true;
}

bool PermutedReader::next(SampleBlock& block) {
  block.samples.clear();
  block.num_bytes = 0;
  while (block.samples.empty() && has_more()) {
    const std::uint64_t before = taken_;
    const std::vector<std::uint64_t> numbers = next_numbers();
    std::vector<std::optional<Sample>> found(numbers.size());
    access_.samples(numbers, [&](SampleAccess::Result result) {
      if (result.fault == nullptr)
        found[result.place] = std::move(result.sample);
      else
        lose(before + result.place, *result.fault);
    });
    barren_ += numbers.size();
    add(found, block);
    if (!block.samples.empty()) barren_ = 0;
  }
  return !block.samples.empty();
}

}  // namespace millrace::wds::detail
