#include "trainer/detail/replica_epoch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer::detail {

ReplicaEpoch::ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device)
    : context_(context),
      replica_(replica),
      device_(device),
      step_sums_(replica.objective().measures().size() + 1) {
  totals_.sums = context.first_sums;
  totals_.sums.resize(step_sums_.size());
  totals_.steps = context.first_step;
  totals_.global_step = context.global_step;
}

void ReplicaEpoch::lap(double& into) {
  const auto now = std::chrono::steady_clock::now();
  into += std::chrono::duration<double>(now - lap_).count();
  lap_ = now;
}

EpochTotals ReplicaEpoch::run() {
  const auto start = std::chrono::steady_clock::now();
  lap_ = start;
  rate_ = RateMeter(start);
  while (!stop_ && take_batch()) {
    run_batch();
    finish_step();
  }
  totals_.stopped = stop_;
  totals_.times = times_;
  totals_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(totals_);
}

// The vote also keeps a fast replica from reading weights that a slow one still updates.
bool ReplicaEpoch::take_batch() {
  const bool has = context_.feed.next(replica_.rank(), batch_);
  lap(times_.wait);
  std::array<double, 3> votes{has ? 1.0 : 0.0, has ? static_cast<double>(batch_.num_valid) : 0.0,
                              context_.options.stop.stop_requested() ? 1.0 : 0.0};
  replica_.control().all_reduce(std::span<double>(votes));
  lap(times_.reduce);
  const int world = replica_.control().world();
  if (votes[0] > 0.0 && votes[0] < world) {
    throw Error(ErrorCode::kCorrupt, "the replicas were given unequal numbers of batches");
  }
  if (!has) return false;
  divisor_ = votes[1];
  stop_ = votes[2] > 0.0;
  totals_.position = batch_.position;
  totals_.batch_size = batch_.size;
  return true;
}

void ReplicaEpoch::run_batch() {
  if (context_.options.on_non_finite == OnNonFinite::kSkip) {
    saved_state_.assign(replica_.state().begin(), replica_.state().end());
  }
  nn::Plan& plan = replica_.plan_for(batch_);
  plan.set_random_key({.seed = context_.options.seed,
                       .epoch = static_cast<std::uint32_t>(context_.epoch),
                       .stream = static_cast<std::uint32_t>(replica_.rank()),
                       .index = static_cast<std::uint64_t>(totals_.steps),
                       .purpose = Purpose::kDropout});
  plan.forward(replica_.inputs_of(batch_), nn::Mode::kTrain);
  std::fill(step_sums_.begin(), step_sums_.end(), 0.0);
  replica_.objective().score(
      {.plan = plan, .batch = batch_, .gradients = true, .divisor = std::max(1.0, divisor_)},
      std::span(step_sums_).first(step_sums_.size() - 1));
  step_sums_.back() = static_cast<double>(batch_.num_valid);
  lap(times_.forward);
  replica_.reducer().begin();
  plan.backward([this](std::size_t ready) { replica_.reducer().gradients_ready(ready); });
  lap(times_.backward);
}

// False when the step must be left out. The sums are equal on all ranks, and so is the decision.
bool ReplicaEpoch::reduce_step() {
  replica_.reducer().wait();
  replica_.control().all_reduce(std::span<double>(step_sums_));
  average_state();
  lap(times_.reduce);
  if (std::isfinite(step_sums_[0])) return true;
  if (context_.options.on_non_finite == OnNonFinite::kSkip) return false;
  throw Error(ErrorCode::kCorrupt,
              "the loss is not finite at epoch " + std::to_string(context_.epoch + 1) + ", step " +
                  std::to_string(totals_.steps + 1) +
                  ": lower the learning rate, or look at the data",
              {.stage = "train"});
}

// Running statistics are the mean of the replicas': then rank 0's are all there is to save.
void ReplicaEpoch::average_state() {
  const int world = replica_.control().world();
  if (world == 1 || replica_.state().empty()) return;
  replica_.control().all_reduce(replica_.state());
  const float share = 1.0F / static_cast<float>(world);
  for (float& value : replica_.state()) value *= share;
}

float ReplicaEpoch::learning_rate() const {
  return context_.schedule.lr({.epoch = context_.epoch,
                               .step = totals_.steps,
                               .steps_per_epoch = context_.steps_per_epoch});
}

void ReplicaEpoch::update(double valid) {
  if (valid <= 0.0) return;
  const Update update{.weights = context_.weights,
                      .gradients = replica_.gradients(),
                      .lr = learning_rate(),
                      .step = totals_.global_step + 1};
  for (const Range& range : replica_.reducer().owned()) context_.optimizer.update(update, range);
  replica_.parameters_changed();
}

void ReplicaEpoch::finish_step() {
  const bool good = reduce_step();
  const double valid = step_sums_.back();
  if (good) {
    update(valid);
    for (std::size_t i = 0; i < step_sums_.size(); ++i) totals_.sums[i] += step_sums_[i];
  } else {
    std::copy(saved_state_.begin(), saved_state_.end(), replica_.state().begin());
    ++totals_.skipped_steps;
  }
  totals_.replica_samples += batch_.num_valid;
  rate_.add(batch_.num_valid);
  const double loss = valid > 0.0 ? step_sums_[0] / valid : 0.0;
  lap(times_.update);
  report(loss);
  ++totals_.steps;
  ++totals_.global_step;
}

void ReplicaEpoch::report(double loss) {
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
                        .steps_per_epoch = context_.steps_per_epoch,
                        .loss = loss,
                        .mean_loss = totals_.sums[0] / std::max(1.0, totals_.sums.back()),
                        .lr = static_cast<double>(learning_rate()),
                        .rate = rate_.rate(),
                        .global_rate = rate_.global_rate()};
  if (replica_.rank() == 0) context_.on_step(event);
  if (log) context_.on_log_step(event);
}

}  // namespace millrace::trainer::detail
