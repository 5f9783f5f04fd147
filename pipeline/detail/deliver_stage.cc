#include "pipeline/detail/deliver_stage.h"

#include <utility>

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
  const auto until = std::chrono::steady_clock::now() + timeout;
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

void DeliverStage::deliver(Output output) {
  const StageWork work(meters_.deliver, meters_.trace, "pipeline", "deliver");
  if (over_) return count_later_faults(output);
  switch (output.kind) {
    case Output::Kind::kRound:
      return deliver_round(std::move(output));
    case Output::Kind::kDiscarded:
      return callbacks_.return_permit();
    case Output::Kind::kMasked:
      return output_.push(std::move(output));
    case Output::Kind::kFault:
      return fail(std::move(output.error));
    case Output::Kind::kEpochEnd:
      stopped_epoch_.reset();
      return output_.push(std::move(output));
  }
}

void DeliverStage::deliver_round(Output output) {
  if (stopped_epoch_ == output.epoch) return replace_round(output);
  try {
    report_faults(*output.round);
  } catch (...) {
    return fail(std::current_exception());
  }
  const std::int64_t valid = output.round->num_valid();
  if (stopped_epoch_ && valid == 0) return replace_round(output);
  ledgers_.of(output.epoch)->count_emitted(static_cast<std::uint64_t>(valid));
  std::size_t bytes = 0;
  for (const Batch& batch : output.round->batches()) bytes += batch.num_bytes();
  meters_.deliver.count(static_cast<std::size_t>(valid), bytes);
  output_.push(std::move(output));
}

/// After the fault that cut the epoch: nothing, or masked batches if their number is promised.
void DeliverStage::replace_round(const Output& output) {
  if (least_batches(options_) > 0)
    output_.push({.kind = Output::Kind::kMasked,
                  .epoch = output.epoch,
                  .index = output.index,
                  .repeat = output.round->num_batches()});
  callbacks_.return_permit();
}

void DeliverStage::report_faults(OpenRound& round) {
  if (round.faults().empty()) return;
  const std::uint32_t epoch = round.batches().front().epoch;
  const auto ledger = ledgers_.of(epoch);
  for (const OpenRound::SlotFault& fault : round.faults()) {
    if (ledger->report(fault.error) != wds::OnFault::kStop) continue;
    stopped_epoch_ = epoch;
    round.cut_at_first_fault();
    return callbacks_.cut_epoch(epoch);
  }
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
