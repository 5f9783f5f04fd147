#include "trainer/detail/replica_epoch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t bytes_of(const pipeline::Batch& batch) {
  std::int64_t bytes = 0;
  for (const auto& field : batch.fields) bytes += static_cast<std::int64_t>(field.data.size());
  return bytes;
}

}  // namespace

ReplicaEpoch::ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device)
    : context_(context),
      replica_(replica),
      device_(device),
      totals_(context.totals[static_cast<std::size_t>(replica.rank())]),
      batches_(context.first_step * context.options.accumulate),
      step_sums_(replica.objective().num_sums() + 2) {
  totals_ = {
      .sums = context.first_sums, .steps = context.first_step, .global_step = context.global_step};
  totals_.sums.resize(step_sums_.size() - 1);
  if (context.options.accumulate > 1) accumulated_.resize(replica.gradients().size());
}

void ReplicaEpoch::lap(double& into) {
  const auto now = std::chrono::steady_clock::now();
  into += std::chrono::duration<double>(now - lap_).count();
  lap_ = now;
}

std::chrono::nanoseconds ReplicaEpoch::peer_wait() const {
  return replica_.control().peer_wait() + replica_.reducer().peer_wait();
}

// A lap of collectives: what of it was spent waiting for slower replicas stands apart.
void ReplicaEpoch::lap_reduce(std::chrono::nanoseconds waited_before) {
  double elapsed = 0;
  lap(elapsed);
  const std::chrono::duration<double> waited = peer_wait() - waited_before;
  const double peers = std::min(elapsed, waited.count());
  step_times_.peer_wait += peers;
  step_times_.reduce += elapsed - peers;
}

void ReplicaEpoch::run() {
  const auto start = std::chrono::steady_clock::now();
  lap_ = start;
  rate_ = RateMeter(start);
  begin_step();
  try {
    take_steps();
  } catch (...) {
    take_back();
    throw;
  }
  totals_.stopped = stop_ || input_failed_;
  totals_.seconds = seconds_since(start);
}

void ReplicaEpoch::take_steps() {
  while (!(stop_ && held_ == 0) && take_batch()) {
    if (held_ == 0) tell_start();
    run_batch();
    if (held_ == context_.options.accumulate) finish_step();
  }
  if (input_failed_) return take_back();
  if (held_ > 0) finish_step();
}

// The vote also keeps a fast replica from reading weights that a slow one still updates.
bool ReplicaEpoch::take_batch() {
  bool has = false;
  bool failed = true;
  context_.input_failure.guard([&] {
    has = context_.feed.next(replica_.rank(), batch_);
    failed = false;
  });
  lap(step_times_.wait);
  const auto waited = peer_wait();
  const bool first = replica_.rank() == 0;
  std::array<double, 5> votes{has ? 1.0 : 0.0, has ? static_cast<double>(batch_.num_valid) : 0.0,
                              first && context_.stop_due() ? 1.0 : 0.0,
                              first && context_.checkpoint_due() ? 1.0 : 0.0, failed ? 1.0 : 0.0};
  replica_.control().all_reduce(std::span<double>(votes));
  lap_reduce(waited);
  input_failed_ = votes[4] > 0.0;
  if (input_failed_) return false;
  if (votes[0] > 0.0 && votes[0] < replica_.control().world()) {
    throw Error(ErrorCode::kCorrupt, "the replicas were given unequal numbers of batches");
  }
  stop_ = stop_ || votes[2] > 0.0;
  checkpoint_due_ = checkpoint_due_ || votes[3] > 0.0;
  if (!has) return false;
  valid_ += votes[1];
  position_ = batch_.position;
  totals_.batch_size = batch_.size;
  return true;
}

void ReplicaEpoch::begin_step() {
  held_ = 0;
  valid_ = 0;
  step_samples_ = 0;
  step_bytes_ = 0;
  step_times_ = {};
  std::fill(step_sums_.begin(), step_sums_.end(), 0.0);
  saved_state_.assign(replica_.buffers().begin(), replica_.buffers().end());
  totals_.whole = true;
}

void ReplicaEpoch::tell_start() {
  if (replica_.rank() != 0) return;
  context_.on_step_start({.epoch = context_.epoch + 1,
                          .step = totals_.steps + 1,
                          .global_step = totals_.global_step + 1});
}

void ReplicaEpoch::run_batch() {
  nn::Plan& plan = replica_.plan_for(batch_);
  plan.set_random_key({.seed = context_.options.seed,
                       .epoch = static_cast<std::uint32_t>(context_.epoch),
                       .stream = static_cast<std::uint32_t>(replica_.rank()),
                       .index = static_cast<std::uint64_t>(batches_),
                       .purpose = Purpose::kDropout});
  plan.forward(replica_.inputs_of(batch_), nn::Mode::kTrain);
  // How many samples an accumulated step will have is not known yet: its gradients are divided by
  // how many there may be, and scaled when it is.
  const std::int64_t accumulate = context_.options.accumulate;
  divisor_ = accumulate == 1
                 ? std::max(1.0, valid_)
                 : static_cast<double>(accumulate * batch_.size) * replica_.control().world();
  replica_.objective().score(
      {.plan = plan, .batch = batch_, .gradients = true, .divisor = divisor_},
      std::span(step_sums_).first(step_sums_.size() - 2));
  lap(step_times_.forward);
  backward(plan);
  ++held_;
  ++batches_;
  step_samples_ += batch_.num_valid;
  step_bytes_ += bytes_of(batch_);
  lap(step_times_.backward);
}

void ReplicaEpoch::backward(nn::Plan& plan) {
  const std::span<float> gradients = replica_.gradients();
  if (held_ + 1 < context_.options.accumulate) {
    plan.backward([](std::size_t) {});
    flat::add(accumulated_, gradients);
    return;
  }
  replica_.reducer().begin();
  std::size_t done = 0;
  plan.backward([&](std::size_t ready) {
    if (!accumulated_.empty()) {
      const std::span<const float> before = accumulated_;
      flat::add(gradients.subspan(done, ready - done), before.subspan(done, ready - done));
      done = ready;
    }
    replica_.reducer().gradients_ready(ready);
  });
}

// Bounds the gradients that this rank owns; the sum of their squares.
double ReplicaEpoch::clip_values(double scale) {
  const ClipOptions& clip = context_.options.clip;
  if (clip.norm <= 0.0 && clip.value <= 0.0F) return 0.0;
  double squares = 0.0;
  for (const Range& range : replica_.reducer().owned()) {
    const auto gradients = replica_.gradients().subspan(range.begin, range.size());
    if (clip.value > 0.0F) flat::clamp(gradients, clip.value / static_cast<float>(scale));
    squares += flat::square_sum(gradients);
  }
  return squares * scale * scale;
}

// False when the step must be left out. The sums are equal on all ranks, and so is the decision.
bool ReplicaEpoch::reduce_step() {
  const auto waited = peer_wait();
  replica_.reducer().wait();
  step_sums_[step_sums_.size() - 2] = static_cast<double>(step_samples_);
  step_sums_.back() = clip_values(divisor_ / std::max(1.0, valid_));
  replica_.control().all_reduce(std::span<double>(step_sums_));
  totals_.whole = false;  // no replica can fail before its update any more, and leave ours ahead
  average_state();
  lap_reduce(waited);
  if (std::isfinite(step_sums_[0]) && std::isfinite(step_sums_.back())) return true;
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
  if (world == 1 || replica_.buffers().empty()) return;
  replica_.control().all_reduce(replica_.buffers());
  flat::scale(replica_.buffers(), 1.0F / static_cast<float>(world));
}

float ReplicaEpoch::learning_rate() const {
  return context_.schedule.lr({.epoch = context_.epoch,
                               .step = totals_.steps,
                               .steps_per_epoch = context_.steps_per_epoch,
                               .global_step = totals_.global_step});
}

Update ReplicaEpoch::make_update() {
  double scale = divisor_ / valid_;
  const double norm = std::sqrt(step_sums_.back());
  const double bound = context_.options.clip.norm;
  if (bound > 0.0 && norm > bound) scale *= bound / (norm + 1e-6);  // as torch's clip_grad_norm_
  return {.weights = context_.weights,
          .gradients = replica_.gradients(),
          .lr = learning_rate(),
          .gradient_scale = static_cast<float>(scale),
          .step = totals_.global_step + 1};
}

void ReplicaEpoch::update() {
  Update update = make_update();
  Optimizer& optimizer = context_.optimizer;
  const std::vector<Range>& owned = replica_.reducer().owned();
  std::vector<double> sums(optimizer.num_square_sums());
  if (!sums.empty()) {
    for (const Range& range : owned) optimizer.add_square_sums(update, range, sums);
    replica_.control().all_reduce(std::span<double>(sums));
    update.square_sums = sums;
  }
  for (const Range& range : owned) optimizer.update(update, range);
  if (!context_.ema.empty()) follow_mean();
  replica_.parameters_changed();
}

void ReplicaEpoch::follow_mean() {
  const auto decay = static_cast<float>(context_.options.ema_decay);
  for (const Range& range : replica_.reducer().owned()) {
    flat::update_ema(context_.ema.subspan(range.begin, range.size()),
                     context_.weights.subspan(range.begin, range.size()), decay);
  }
}

void ReplicaEpoch::leave_out() {
  std::copy(saved_state_.begin(), saved_state_.end(), replica_.buffers().begin());
  ++totals_.skipped_steps;
}

// A step that was not reduced has changed nothing but running statistics.
void ReplicaEpoch::take_back() {
  if (totals_.whole)
    std::copy(saved_state_.begin(), saved_state_.end(), replica_.buffers().begin());
}

void ReplicaEpoch::finish_step() {
  if (held_ < context_.options.accumulate) {  // the epoch ended in the step's middle
    std::copy(accumulated_.begin(), accumulated_.end(), replica_.gradients().begin());
    replica_.reducer().begin();
  }
  std::fill(accumulated_.begin(), accumulated_.end(), 0.0F);
  if (reduce_step()) {
    if (valid_ > 0.0) update();
    flat::add(totals_.sums, std::span<const double>(step_sums_).first(totals_.sums.size()));
  } else {
    leave_out();
  }
  lap(step_times_.update);
  totals_.replica_samples += step_samples_;
  if (totals_.steps == context_.first_step) totals_.first_times = step_times_;
  totals_.times.add(step_times_);
  rate_.add(step_samples_);
  report();
  ++totals_.steps;
  ++totals_.global_step;
  totals_.position = position_;
  checkpoint_if_due();
  begin_step();
}

void ReplicaEpoch::checkpoint_if_due() {
  const std::int64_t every = context_.options.checkpoint.every_steps;
  const bool due = checkpoint_due_ || (every > 0 && totals_.global_step % every == 0);
  checkpoint_due_ = false;
  if (!due) return;
  replica_.control().barrier();
  if (replica_.rank() == 0) context_.checkpoint();
  replica_.control().barrier();
}

void ReplicaEpoch::report() {
  const std::int64_t log_steps = context_.options.log_steps;
  const std::int64_t step = totals_.steps + 1;
  const bool log = log_steps > 0 && step % log_steps == 0;
  if (replica_.rank() != 0 && !log) return;
  if (log) rate_.mark();
  const std::size_t samples = totals_.sums.size() - 1;
  const StepEvent event{.rank = replica_.rank(),
                        .world = replica_.control().world(),
                        .device = device_,
                        .epoch = context_.epoch + 1,
                        .step = step,
                        .global_step = totals_.global_step + 1,
                        .steps_per_epoch = context_.shown_steps,
                        .loss = step_sums_[0] / std::max(1.0, step_sums_[samples]),
                        .mean_loss = totals_.sums[0] / std::max(1.0, totals_.sums.back()),
                        .lr = static_cast<double>(learning_rate()),
                        .rate = rate_.rate(),
                        .global_rate = rate_.global_rate(),
                        .times = step_times_,
                        .samples = step_samples_,
                        .bytes = step_bytes_};
  if (replica_.rank() == 0) context_.on_step(event);
  if (log) context_.on_log_step(event);
}

}  // namespace millrace::trainer::detail
