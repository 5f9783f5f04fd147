#include "pipeline/detail/deliver_stage.h"

#include <utility>

#include "io/base/clock.h"
#include "pipeline/detail/open_round.h"
#include "pipeline/detail/resolve.h"

namespace millrace::pipeline::detail {
namespace {

bool is_cancelled(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == ErrorCode::kCancelled;
  } catch (...) {
    return false;
  }
}

/// `position`, which may be null, with what decoding has cost before it.
std::shared_ptr<const Position> with_losses(std::shared_ptr<const Position> position,
                                            const Position::Losses& undecoded) {
  if (!position || undecoded.empty()) return position;
  auto lossy = std::make_shared<Position>(*position);
  lossy->undecoded = undecoded;
  return lossy;
}

}  // namespace

void OutputQueue::push(Output output) {
  {
    MutexLock lock(mutex_);
    outputs_.push_back(std::move(output));
  }
  changed_.notify_one();
}

void OutputQueue::fail(std::exception_ptr error) {
  {
    MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

Output OutputQueue::pop() {
  MutexLock lock(mutex_);
  while (outputs_.empty() && !error_) changed_.wait(lock);
  if (error_) std::rethrow_exception(error_);
  Output output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

bool OutputQueue::wait_for(std::chrono::nanoseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + bounded(timeout);
  MutexLock lock(mutex_);
  while (outputs_.empty() && !error_)
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
  return !outputs_.empty() || error_;
}

void OutputQueue::check() {
  MutexLock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

std::size_t OutputQueue::size() {
  MutexLock lock(mutex_);
  return outputs_.size();
}

DeliverStage::DeliverStage(const PipelineOptions& options, const Position& start,
                           LedgerBook& ledgers, OutputQueue& output, Meters& meters,
                           Callbacks callbacks)
    : options_(options),
      ledgers_(ledgers),
      output_(output),
      meters_(meters),
      callbacks_(std::move(callbacks)),
      undecoded_(start.undecoded),
      handed_out_undecoded_(start.undecoded) {
  if (!options.batch.fill) return;
  filler_.emplace(options, start,
                  RoundFiller::Callbacks{
                      .ends_epoch = [this](std::uint32_t epoch,
                                           const Error& fault) { return ends_epoch(epoch, fault); },
                      .hand_out = [this](Output whole) { hand_out(std::move(whole)); },
                      .leave_out =
                          [this](std::int64_t samples) {
                            meters_.dropped += static_cast<std::uint64_t>(samples);
                            callbacks_.return_permit();
                          }});
}

void DeliverStage::deliver(Output output) {
  const StageWork work(meters_.deliver, meters_.trace, "pipeline", "deliver");
  if (over_) return count_later_faults(output);
  switch (output.kind) {
    case Output::Kind::kRound:
      return deliver_round(std::move(output));
    case Output::Kind::kDiscarded:
      return callbacks_.return_permit();
    case Output::Kind::kMasked:
      return deliver_masked(std::move(output));
    case Output::Kind::kFault:
      return fail(std::move(output.error));
    case Output::Kind::kEpochEnd:
      return end_epoch(std::move(output));
  }
}

void DeliverStage::deliver_round(Output output) {
  if (stopped_epoch_ == output.epoch) return replace_round(output);
  if (filler_) return fill(std::move(output));
  try {
    report_faults(*output.round);
  } catch (...) {
    return fail(std::current_exception());
  }
  if (stopped_epoch_ && output.round->num_valid() == 0) return replace_round(output);
  hand_out(std::move(output));
}

/// A fault that ends the run leaves the round that waits where it is: it is not whole.
void DeliverStage::fill(Output output) {
  try {
    filler_->add(std::move(output));
  } catch (...) {
    fail(std::current_exception());
  }
}

void DeliverStage::deliver_masked(Output output) {
  if (filler_) {
    filler_->end_samples();
    const std::int64_t used_up = filler_->take_used_up();
    output.index -= used_up;
    output.repeat += used_up;
  }
  output.position = with_losses(std::move(output.position), undecoded_);
  output_.push(std::move(output));
}

void DeliverStage::end_epoch(Output output) {
  stopped_epoch_.reset();
  if (filler_) {
    filler_->end_samples();
    auto behind = filler_->behind();
    const std::int64_t used_up = filler_->take_used_up();
    if (used_up > 0 && least_batches(options_) > 0)
      output_.push({.kind = Output::Kind::kMasked,
                    .epoch = output.epoch,
                    .index = output.index - used_up,
                    .repeat = used_up,
                    .position = with_losses(std::move(behind), undecoded_)});
  }
  undecoded_.clear();
  handed_out_undecoded_.clear();
  output_.push(std::move(output));
}

void DeliverStage::hand_out(Output output) {
  const std::int64_t valid = output.round->num_valid();
  ledgers_.of(output.epoch)->count_emitted(static_cast<std::uint64_t>(valid));
  std::size_t bytes = 0;
  for (const Batch& batch : output.round->batches()) bytes += batch.num_bytes();
  take_account(*output.round);
  meters_.deliver.count(static_cast<std::size_t>(valid), bytes);
  output_.push(std::move(output));
}

/// What continues in the middle of a round decodes all of the round again.
void DeliverStage::take_account(OpenRound& round) {
  for (Batch& batch : round.batches())
    batch.position =
        with_losses(std::move(batch.position),
                    &batch == &round.batches().back() ? undecoded_ : handed_out_undecoded_);
  handed_out_undecoded_ = undecoded_;
}

/// After the fault that cut the epoch: nothing, or masked batches if their number is promised.
void DeliverStage::replace_round(const Output& output) {
  if (least_batches(options_) > 0)
    output_.push({.kind = Output::Kind::kMasked,
                  .epoch = output.epoch,
                  .index = output.index - (filler_ ? filler_->used_up() : 0),
                  .repeat = output.round->num_batches()});
  callbacks_.return_permit();
}

void DeliverStage::report_faults(OpenRound& round) {
  if (round.faults().empty()) return;
  const std::uint32_t epoch = round.batches().front().epoch;
  for (const OpenRound::SlotFault& fault : round.faults())
    if (ends_epoch(epoch, fault.error)) return round.cut_at_first_fault();
}

/// Applies the policy to a fault.
bool DeliverStage::ends_epoch(std::uint32_t epoch, const Error& fault) {
  const wds::OnFault then = ledgers_.of(epoch)->report(fault);
  ++undecoded_[fault.code()];
  if (then != wds::OnFault::kStop) return false;
  stopped_epoch_ = epoch;
  callbacks_.cut_epoch(epoch);
  return true;
}

void DeliverStage::fail(std::exception_ptr error) {
  over_ = true;
  output_.push({.kind = Output::Kind::kFault, .error = std::move(error)});
  callbacks_.failed();
}

void DeliverStage::count_later_faults(const Output& output) {
  if (output.round) meters_.later_faults += output.round->faults().size();
  if (output.error && !is_cancelled(output.error)) ++meters_.later_faults;
}

}  // namespace millrace::pipeline::detail
