#include "trainer/detail/replica_epoch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "io/base/error.h"
#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {

ReplicaEpoch::ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device)
    : context_(context),
      replica_(replica),
      device_(device),
      totals_(context.totals[static_cast<std::size_t>(replica.device())]),
      timer_(replica),
      step_(context.step, replica, timer_),
      input_(context.feed, context.input_failure, replica.device()) {
  totals_ = {
      .sums = context.first_sums, .steps = context.first_step, .global_step = context.global_step};
  totals_.sums.resize(step_.sums().size());
}

void ReplicaEpoch::run() {
  const auto start = std::chrono::steady_clock::now();
  rate_ = RateMeter(start);
  all_rate_ = RateMeter(start);
  step_.begin();
  try {
    take_steps();
  } catch (...) {
    if (totals_.whole) step_.restore_buffers();
    if (!settle() && fails_on_non_finite()) totals_.whole = false;
    throw;
  }
  totals_.stopped = stop_ || input_failed_;
  totals_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ReplicaEpoch::take_steps() {
  while (!stop_ && next_micro_batch()) {
    if (stop_) break;
    if (step_.is_empty()) tell_start();
    step_.add(micro_);
    if (step_.is_full()) finish_step();
  }
  // A stop does not wait for the rest of a step: a resumed run takes it from its first micro-batch.
  if (input_failed_ || stop_) {
    step_.restore_buffers();
  } else if (!step_.is_empty()) {
    finish_step();
  }
  step_.await_weights();
  settle_or_fail();
}

// False if all replicas' inputs have ended, or one has failed.
bool ReplicaEpoch::next_micro_batch() {
  input_.next();
  timer_.lap(&StepTimes::wait);
  const bool more = vote();
  timer_.lap_collectives();
  if (more && input_.has_batch()) position_ = input_.batch().position;
  return more;
}

// A process votes through its first replica; on checkpoints process 0 alone.
bool ReplicaEpoch::vote() {
  const auto counted = [&](std::int64_t value) {
    return input_.has_batch() ? static_cast<double>(value) : 0.0;
  };
  std::array<double, 6> votes{counted(1),
                              counted(input_.batch().num_valid),
                              counted(input_.batch().size),
                              replica_.device() == 0 && context_.host.stop_due() ? 1.0 : 0.0,
                              replica_.rank() == 0 && context_.host.checkpoint_due() ? 1.0 : 0.0,
                              input_.failed() ? 1.0 : 0.0};
  replica_.control().all_reduce(std::span<double>(votes));
  const auto [batches, num_valid, slots, stop, checkpoint, failures] = votes;
  input_failed_ = failures > 0.0;
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

// By the slots of the epoch: the same on any number of devices and processes. A feed that does not
// say which slots a batch has counts a process's batches, whose slots the processes take in turn.
nn::BatchKey ReplicaEpoch::random_key() const {
  nn::BatchKey key{
      .first = {.seed = context_.options.seed, .epoch = static_cast<std::uint32_t>(context_.epoch)},
      .stride = static_cast<std::uint64_t>(context_.topology.processes)};
  if (!input_.has_batch()) return key;
  const pipeline::Batch& batch = input_.batch();
  if (batch.slots.stride > 0) {
    key.first.index = static_cast<std::uint64_t>(batch.slots.first);
    key.stride = static_cast<std::uint64_t>(batch.slots.stride);
    return key;
  }
  const std::int64_t size = context_.batch_size > 0 ? context_.batch_size : batch.size;
  key.first.index = static_cast<std::uint64_t>(batch.index * size) * key.stride +
                    static_cast<std::uint64_t>(context_.topology.process);
  return key;
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

void ReplicaEpoch::finish_step() {
  settle_or_fail();
  step_.reduce();
  totals_.whole = false;  // from here on a replica that fails is behind those that have updated
  step_.average_buffers();
  timer_.lap_collectives();
  step_.update(learning_rate(), totals_.global_step + 1);
  pending_sums_.assign(step_.sums().begin(), step_.sums().end());
  timer_.lap(&StepTimes::update);
  report();
  count_step();
  checkpoint_if_due();
  step_.begin();
  timer_.begin_step();
  totals_.whole = true;
}

// Whether the last step changed the weights, which decides how it is counted. Equal on all
// replicas.
bool ReplicaEpoch::settle() {
  if (pending_sums_.empty()) return true;
  const bool finite = step_.was_finite();
  if (finite) {
    flat::add(totals_.sums, pending_sums_);
  } else {
    ++totals_.skipped_steps;
  }
  last_loss_ = pending_sums_.front();
  pending_sums_.clear();
  return finite;
}

bool ReplicaEpoch::fails_on_non_finite() const {
  return context_.options.on_non_finite == OnNonFinite::kFail;
}

void ReplicaEpoch::settle_or_fail() {
  if (settle() || !fails_on_non_finite()) return;
  totals_.whole = false;
  const std::string what = std::isfinite(last_loss_) ? "a gradient" : "the loss";
  throw Error(ErrorCode::kNotFinite,
              what + " is not finite at epoch " + std::to_string(context_.epoch + 1) + ", step " +
                  std::to_string(totals_.steps) + ": lower the learning rate or check the data",
              {.stage = "train"});
}

/// Of the epoch so far, including the unsettled step if its loss is finite.
double ReplicaEpoch::mean_loss() const {
  double loss = totals_.sums.front();
  double samples = totals_.sums.back();
  if (!pending_sums_.empty() && std::isfinite(pending_sums_.front())) {
    loss += pending_sums_.front();
    samples += pending_sums_.back();
  }
  return loss / std::max(1.0, samples);
}

void ReplicaEpoch::count_step() {
  if (totals_.steps == context_.first_step) totals_.first_times = timer_.times();
  totals_.times.add(timer_.times());
  totals_.replica_samples += step_.num_samples();
  ++totals_.steps;
  ++totals_.global_step;
  totals_.position = position_;
}

void ReplicaEpoch::checkpoint_if_due() {
  const std::int64_t every = context_.options.checkpoint.every_steps;
  const bool due = checkpoint_due_ || (every > 0 && totals_.global_step % every == 0);
  checkpoint_due_ = false;
  if (!due) return;
  step_.await_weights();
  settle_or_fail();
  context_.host.prepare_checkpoint(replica_);
  replica_.control().barrier();
  if (replica_.device() == 0) context_.host.save_checkpoint();
  replica_.control().barrier();
}

void ReplicaEpoch::report() {
  rate_.add(step_.num_samples());
  all_rate_.add(std::llround(step_.sums().back()));
  const std::int64_t log_steps = context_.options.log_steps;
  const std::int64_t step = totals_.steps + 1;
  const bool log = log_steps > 0 && step % log_steps == 0;
  if (replica_.rank() != 0 && !log) return;
  if (log) rate_.mark();
  const StepEvent event{.rank = replica_.rank(),
                        .world = replica_.control().world(),
                        .device = device_,
                        .epoch = context_.epoch + 1,
                        .step = step,
                        .global_step = totals_.global_step + 1,
                        .steps_per_epoch = context_.shown_steps,
                        .loss = step_.sums().front() / std::max(1.0, step_.sums().back()),
                        .mean_loss = mean_loss(),
                        .lr = static_cast<double>(learning_rate()),
                        .rate = rate_.rate(),
                        .global_rate = rate_.global_rate(),
                        .total_rate = all_rate_.global_rate(),
                        .times = timer_.times(),
                        .samples = step_.num_samples(),
                        .global_samples = std::llround(step_.sums().back()),
                        .bytes = step_.num_bytes()};
  if (replica_.rank() == 0) context_.host.on_step(event);
  if (log) context_.host.on_log_step(event);
}

}  // namespace millrace::trainer::detail
