#include "trainer/detail/loop/replica_epoch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/flat_math.h"
#include "trainer/detail/loop/start_filters.h"

namespace millrace::trainer::detail {
ReplicaEpoch::ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device)
    : context_(context),
      replica_(replica),
      step_(replica.step()),
      device_(device),
      totals_(context.totals[static_cast<std::size_t>(replica.device())]),
      input_(context.feed, context.input_failure, replica.device()),
      limit_(context.feed, context.input_failure, replica.device(), context.topology.processes) {
  totals_ = {.sums = context.first_sums,
             .steps = context.first_step,
             .global_step = context.global_step,
             .skipped_updates = context.skipped_updates};
  totals_.sums.resize(replica.objective().num_sums() + 1);
}

void ReplicaEpoch::run() {
  const auto start = std::chrono::steady_clock::now();
  rate_ = RateMeter(start);
  all_rate_ = RateMeter(start);
  trace_from(totals_.global_step + 1);
  replica_.clock().start();
  try {
    take_steps();
  } catch (...) {
    abandon();
    throw;
  }
  totals_.stopped = stop_ || input_failed_;
  totals_.seconds = seconds_since(start);
}

// Keeps the finished steps' state, if there is one.
void ReplicaEpoch::abandon() {
  totals_.whole = totals_.whole && step_.is_intact();
  if (!totals_.whole) return;
  try {
    step_.discard();
    for (; !pending_.empty(); pending_.pop_front()) {
      const StepOutcome outcome = step_.outcome();
      if (!outcome.is_finite && fails_on_non_finite()) totals_.whole = false;
      take_over(outcome);
    }
  } catch (...) {
    totals_.whole = false;
  }
}

void ReplicaEpoch::take_steps() {
  while (!stop_ && next_micro_batch()) {
    if (stop_) break;
    if (micro_batches_ == 0) tell_start();
    add_micro_batch();
    if (is_full()) finish_step();
  }
  // A stop does not wait for the rest of a step: a resumed run takes it from its first micro-batch.
  if (input_failed_ || stop_) {
    step_.discard();
  } else if (micro_batches_ > 0) {
    finish_step();
  }
  settle(0);
  step_.await_weights();
}

// False if all replicas' inputs have ended, or one has failed.
bool ReplicaEpoch::next_micro_batch() {
  input_.next();
  replica_.clock().lap(&StepTimes::wait);
  const bool more = vote();
  replica_.clock().lap_collectives();
  if (more && input_.has_batch()) position_ = input_.batch().position;
  return more;
}

// A process votes through its first replica; on checkpoints process 0 alone.
bool ReplicaEpoch::vote() {
  const auto counted = [&](std::int64_t value) {
    return input_.has_batch() ? static_cast<double>(value) : 0.0;
  };
  const auto [own_read, own_skipped] = limit_.votes();
  std::array<double, 8> votes{counted(1),
                              counted(input_.batch().num_valid),
                              counted(input_.batch().size),
                              replica_.device() == 0 && context_.host.stop_due() ? 1.0 : 0.0,
                              replica_.rank() == 0 && context_.host.checkpoint_due() ? 1.0 : 0.0,
                              input_.failed() ? 1.0 : 0.0,
                              own_read,
                              own_skipped};
  replica_.control().all_reduce(std::span<double>(votes));
  const auto [batches, num_valid, slots, stop, checkpoint, failures, read, skipped] = votes;
  input_failed_ = limit_.is_exceeded(read, skipped) || failures > 0.0;
  if (input_failed_) return false;
  stop_ = stop_ || stop > 0.0;
  checkpoint_due_ = checkpoint_due_ || checkpoint > 0.0;
  const bool all = batches == static_cast<double>(replica_.control().world());
  if (batches == 0.0 || (context_.feed.drops_uneven() && !all)) return false;
  totals_.batch_size = static_cast<std::int64_t>(slots / batches);
  micro_ = {.batch = input_.has_batch() ? &input_.batch() : nullptr,
            .num_valid = num_valid,
            .batch_size = totals_.batch_size,
            .random_key = random_key()};
  return true;
}

nn::BatchKey ReplicaEpoch::random_key() const {
  nn::BatchKey key{
      .first = {.seed = context_.options.seed, .epoch = static_cast<std::uint32_t>(context_.epoch)},
      .stride = static_cast<std::uint64_t>(context_.topology.processes)};
  if (!input_.has_batch()) return key;
  const pipeline::SlotNumbers slots = own_slots();
  key.first.index = static_cast<std::uint64_t>(slots.first);
  key.stride = static_cast<std::uint64_t>(slots.stride);
  return key;
}

pipeline::SlotNumbers ReplicaEpoch::own_slots() const {
  return slot_numbers(input_.batch(), context_.batch_size, context_.topology);
}

void ReplicaEpoch::tell_start() {
  if (replica_.rank() != 0) return;
  context_.host.on_step_start({.epoch = context_.epoch + 1,
                               .step = totals_.steps + 1,
                               .global_step = totals_.global_step + 1,
                               .lr = static_cast<double>(learning_rate())});
}

float ReplicaEpoch::learning_rate() const {
  return context_.schedule.lr({.epoch = context_.epoch,
                               .step = totals_.steps,
                               .steps_per_epoch = context_.steps_per_epoch,
                               .global_step = totals_.global_step});
}

void ReplicaEpoch::add_micro_batch() {
  const bool is_first = totals_.global_step == 0 && micro_batches_ == 0;
  if (is_first && context_.starts_from_data) start_from_data();
  ++micro_batches_;
  step_.add(micro_);
  if (micro_.batch == nullptr || micro_.batch->num_valid == 0) return;
  samples_ += micro_.batch->num_valid;
  bytes_ += static_cast<std::int64_t>(micro_.batch->num_bytes());
}

void ReplicaEpoch::start_from_data() {
  StartFilters filters(replica_, StartFilters::From::kFirstStep);
  if (micro_.batch != nullptr) filters.add(*micro_.batch, own_slots());
  filters.write();
}

void ReplicaEpoch::finish_step() {
  step_.apply({.lr = learning_rate(),
               .step = totals_.global_step + 1,
               .base_lr = static_cast<float>(context_.schedule.base_lr()),
               .skipped = totals_.skipped_updates});
  totals_.whole = false;  // a report or a checkpoint that fails is not followed by another
  count_step();
  settle(step_.runs_ahead() ? 1 : 0);
  checkpoint_if_due();
  totals_.whole = true;
}

void ReplicaEpoch::count_step() {
  const StepTimes times = replica_.clock().take();
  pending_.push_back({.rank = replica_.rank(),
                      .world = replica_.control().world(),
                      .device = device_,
                      .epoch = context_.epoch + 1,
                      .step = totals_.steps + 1,
                      .global_step = totals_.global_step + 1,
                      .steps_per_epoch = context_.shown_steps,
                      .lr = static_cast<double>(learning_rate()),
                      .times = times,
                      .samples = samples_,
                      .bytes = bytes_});
  replica_.clock().end_step(pending_.back(), micro_.batch);
  if (totals_.steps == context_.first_step) totals_.first_times = times;
  totals_.times.add(times);
  totals_.replica_samples += samples_;
  ++totals_.steps;
  ++totals_.global_step;
  totals_.position = position_;
  micro_batches_ = samples_ = bytes_ = 0;
  trace_from(totals_.global_step + 1);
}

void ReplicaEpoch::trace_from(std::int64_t step) const {
  if (context_.options.trace != nullptr)
    context_.options.trace->at_step(step, static_cast<std::size_t>(replica_.device()),
                                    context_.totals.size());
}

/// Waits for the outcomes of all applied steps but the last `left`.
void ReplicaEpoch::settle(std::size_t left) {
  while (pending_.size() > left) settle_one();
}

// Whether the step changed the weights decides how it is counted. Equal on all replicas.
void ReplicaEpoch::settle_one() {
  const StepOutcome outcome = step_.outcome();
  StepEvent event = std::move(pending_.front());
  pending_.pop_front();
  report(event, outcome);
  take_over(outcome);
  if (!outcome.is_finite && fails_on_non_finite()) refuse_non_finite(event, outcome.sums.front());
}

void ReplicaEpoch::take_over(const StepOutcome& outcome) {
  if (!outcome.changes()) ++totals_.skipped_updates;
  if (!outcome.is_finite) {
    ++totals_.skipped_steps;
    totals_.skipped_step_samples += outcome.samples;
    return;
  }
  flat::add(std::span(totals_.sums).first(outcome.sums.size()), outcome.sums);
  totals_.sums.back() += outcome.samples;
}

bool ReplicaEpoch::fails_on_non_finite() const {
  return context_.options.on_non_finite == OnNonFinite::kFail;
}

void ReplicaEpoch::refuse_non_finite(const StepEvent& step, double loss) {
  totals_.whole = false;
  const std::string what = std::isfinite(loss) ? "a gradient" : "the loss";
  throw Error(ErrorCode::kNotFinite,
              what + " is not finite at epoch " + std::to_string(step.epoch) + ", step " +
                  std::to_string(step.step) + ": lower the learning rate or check the data",
              {.stage = "train"});
}

/// Of the epoch so far, including the step that is reported if its loss is finite.
double ReplicaEpoch::mean_loss(const StepOutcome& last) const {
  double loss = totals_.sums.front();
  double samples = totals_.sums.back();
  if (std::isfinite(last.sums.front())) {
    loss += last.sums.front();
    samples += last.samples;
  }
  return loss / std::max(1.0, samples);
}

void ReplicaEpoch::checkpoint_if_due() {
  const std::int64_t every = context_.options.checkpoint.every_steps;
  const bool due = checkpoint_due_ || (every > 0 && totals_.global_step % every == 0);
  checkpoint_due_ = false;
  if (!due) return;
  settle(0);
  step_.await_weights();
  replica_.control().barrier();
  if (replica_.device() == 0) context_.host.save_checkpoint();
  replica_.control().barrier();
  replica_.clock().start();  // the next step has not waited for its batch meanwhile
}

void ReplicaEpoch::report(StepEvent& event, const StepOutcome& outcome) {
  rate_.add(event.samples);
  all_rate_.add(std::llround(outcome.samples));
  const std::int64_t log_steps = context_.options.log_steps;
  const bool log = log_steps > 0 && event.step % log_steps == 0;
  if (replica_.rank() != 0 && !log) return;
  if (log) {
    rate_.mark();
    all_rate_.mark();
  }
  event.loss = outcome.sums.front() / std::max(1.0, outcome.samples);
  event.mean_loss = mean_loss(outcome);
  event.rate = rate_.rate();
  event.global_rate = rate_.global_rate();
  event.total_rate = all_rate_.global_rate();
  event.recent_rate = all_rate_.rate();
  event.global_samples = std::llround(outcome.samples);
  if (replica_.rank() == 0) context_.host.on_step(event);
  if (log) context_.host.on_log_step(event);
}

}  // namespace millrace::trainer::detail
