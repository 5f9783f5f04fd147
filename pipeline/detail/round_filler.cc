#include "pipeline/detail/round_filler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pipeline/detail/open_round.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/slots.h"

namespace millrace::pipeline::detail {
namespace {

const Error* fault_at(const OpenRound& round, std::int64_t slot) {
  const auto& faults = round.faults();
  const auto at = std::ranges::lower_bound(faults, slot, {}, &OpenRound::SlotFault::slot);
  return at != faults.end() && at->slot == slot ? &at->error : nullptr;
}

/// `position` with what is taken of the slots behind it.
std::shared_ptr<const Position> with_fill(const std::shared_ptr<const Position>& position,
                                          const Position::Fill& fill) {
  if (fill.is_none()) return position;
  auto filled = std::make_shared<Position>(*position);
  filled->slots -= fill.batches * fill.batch_size;
  filled->fills = {fill};
  return filled;
}

}  // namespace

RoundFiller::RoundFiller(const PipelineOptions& options, const Position& start, Callbacks callbacks)
    : options_(options), callbacks_(std::move(callbacks)) {
  if (start.fills.empty()) return;
  passed_ = start.fills.front().passed;
  used_up_ = start.fills.front().batches;
}

void RoundFiller::add(Output next) {
  next.round->drop_samples(0, passed_);
  if (head_) {
    const bool goes_on = fill_from(*next.round);
    if (hole_ < head_->round->num_slots()) {
      use_up(next);
      if (!goes_on) end_samples();
      return;
    }
    hand_out(passed_);
  }
  begin(std::move(next));
}

/// Gives the samples of `next` to the round that waits until that is whole. False if a fault ended
/// the epoch.
bool RoundFiller::fill_from(OpenRound& next) {
  OpenRound& head = *head_->round;
  for (; hole_ < head.num_slots() && passed_ < next.num_assigned(); ++passed_) {
    const Error* fault = fault_at(next, passed_);
    if (fault != nullptr && callbacks_.ends_epoch(head_->epoch, *fault)) return false;
    if (!next.has_sample(passed_)) continue;
    head.take_sample(hole_, next, passed_);
    find_hole();
  }
  return true;
}

/// Lets `next` be the round that waits, unless it is whole.
void RoundFiller::begin(Output next) {
  OpenRound& round = *next.round;
  before_ = fill_at(passed_, used_up_);
  const std::int64_t first = std::exchange(passed_, 0);
  bool ends = false;
  for (const OpenRound::SlotFault& fault : round.faults()) {
    if (fault.slot < first || !callbacks_.ends_epoch(next.epoch, fault.error)) continue;
    round.drop_samples(fault.slot, round.num_slots());
    ends = true;
    break;
  }
  behind_ = round.batches().back().position;
  head_ = std::move(next);
  hole_ = -1;
  find_hole();
  if (ends) return end_samples();
  if (hole_ == round.num_slots()) hand_out(0);
}

void RoundFiller::use_up(const Output& round) {
  behind_ = round.round->batches().back().position;
  used_up_ += round.round->num_batches();
  passed_ = 0;
  callbacks_.leave_out(round.round->num_samples());
}

void RoundFiller::find_hole() {
  const OpenRound& head = *head_->round;
  do ++hole_;
  while (hole_ < head.num_slots() && head.has_sample(hole_));
}

// Where incomplete batches are dropped and their number is not promised, the last one is.
void RoundFiller::end_samples() {
  if (!head_) return;
  head_->round->close_up();
  const bool drops = options_.batch.uneven == Uneven::kDrop && least_batches(options_) == 0;
  if (head_->round->num_assigned() > 0 && !drops) return hand_out(0);
  use_up(*std::exchange(head_, std::nullopt));
}

std::int64_t RoundFiller::take_used_up() {
  passed_ = 0;
  behind_ = nullptr;
  return std::exchange(used_up_, 0);
}

/// The slots of the round behind it that have been passed are the rest of where it stands.
void RoundFiller::hand_out(std::int64_t passed) {
  Output whole = *std::exchange(head_, std::nullopt);
  std::vector<Batch>& batches = whole.round->batches();
  for (Batch& batch : batches) {
    batch.index -= before_.batches;
    batch.slots = slots_of_batch(options_.split, options_.batch.size, batch.index);
    if (&batch != &batches.back()) batch.position = with_fill(batch.position, before_);
  }
  batches.back().position = with_fill(behind_, fill_at(passed, used_up_));
  whole.index -= before_.batches;
  whole.round->finish();
  callbacks_.hand_out(std::move(whole));
}

Position::Fill RoundFiller::fill_at(std::int64_t passed, std::int64_t batches) const {
  return {.passed = passed,
          .batches = batches,
          .devices = options_.split.topology.devices,
          .batch_size = options_.batch.size};
}

}  // namespace millrace::pipeline::detail
