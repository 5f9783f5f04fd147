#include "trainer/detail/train_step.h"

#include <algorithm>
#include <cmath>

#include "trainer/detail/batch_score.h"

namespace millrace::trainer::detail {
namespace {

std::int64_t bytes_of(const pipeline::Batch& batch) {
  std::int64_t bytes = 0;
  for (const auto& field : batch.fields) bytes += static_cast<std::int64_t>(field.data.size());
  return bytes;
}

}  // namespace

TrainStep::TrainStep(const TrainStepSetup& setup, Replica& replica, StepTimer& timer)
    : setup_(setup),
      replica_(replica),
      timer_(timer),
      sums_(replica.objective().num_sums() + 2),
      kept_buffers_(replica.backend().allocate(replica.buffers().size())) {
  if (setup.options.accumulate > 1) {
    accumulated_ = replica.backend().allocate(replica.gradients().size());
  }
  updater_ = replica.backend().make_updater({.optimizer = setup.options.optimizer,
                                             .parameters = replica.model().parameters(),
                                             .clip = setup.options.clip,
                                             .ema_decay = setup.options.ema_decay,
                                             .weights = setup.weights,
                                             .states = setup.states,
                                             .ema = setup.ema,
                                             .gradients = replica.gradients(),
                                             .buffers = replica.buffers(),
                                             .kept_buffers = kept_buffers_.span,
                                             .owned = replica.reducer().owned(),
                                             .group = replica.control()});
}

void TrainStep::begin() {
  micro_batches_ = 0;
  num_valid_ = 0;
  num_samples_ = 0;
  num_bytes_ = 0;
  has_batch_ = false;
  is_reducing_ = false;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  replica_.backend().set_zero(accumulated_.span);
  replica_.backend().copy(replica_.buffers(), kept_buffers_.span);
}

void TrainStep::add(const MicroBatch& micro) {
  // How many samples an accumulated step will have is not known yet: its gradients are divided by
  // the most there may be, and scaled in the update.
  const std::int64_t accumulate = setup_.options.accumulate;
  num_valid_ += micro.num_valid;
  divisor_ = accumulate == 1
                 ? std::max(1.0, num_valid_)
                 : static_cast<double>(accumulate * micro.batch_size) * replica_.control().world();
  // A batch without a sample counts nowhere, in the buffers' average neither.
  if (micro.batch != nullptr && micro.batch->num_valid > 0) run_batch(micro);
  ++micro_batches_;
}

void TrainStep::run_batch(const MicroBatch& micro) {
  const pipeline::Batch& batch = *micro.batch;
  nn::Plan& plan = replica_.plan_for(batch);
  plan.set_random_key(micro.random_key);
  plan.forward(replica_.inputs_of(batch), nn::Mode::kTrain,
               [&](std::size_t offset) { await_weights(offset); });
  score_batch(replica_, {.plan = plan, .batch = batch, .gradients = true, .divisor = divisor_},
              std::span(sums_).first(replica_.objective().num_sums()));
  timer_.lap(&StepTimes::forward);
  backward(plan);
  has_batch_ = true;
  num_samples_ += batch.num_valid;
  num_bytes_ += bytes_of(batch);
  timer_.lap(&StepTimes::backward);
}

void TrainStep::await_weights(std::size_t offset) {
  WeightGather* gather = replica_.weight_gather();
  if (gather == nullptr || gather->has(offset)) return;
  timer_.lap(&StepTimes::forward);
  gather->wait_for(offset);
  timer_.lap_collectives();
}

void TrainStep::backward(nn::Plan& plan) {
  const DeviceSpan gradients = replica_.gradients();
  const DeviceSpan before = accumulated_.span;
  if (micro_batches_ + 1 < setup_.options.accumulate) {
    plan.backward([](std::size_t) {});
    replica_.backend().add(before, gradients);
    return;
  }
  replica_.reducer().begin();
  is_reducing_ = true;
  std::size_t done = 0;
  plan.backward([&](std::size_t ready) {
    if (!before.empty()) {
      replica_.backend().add(gradients.subspan(done, ready - done),
                             before.subspan(done, ready - done));
      done = ready;
    }
    replica_.reducer().gradients_ready(ready);
  });
}

// If this replica had no batch in the last micro-batch, or the epoch ended within the step.
void TrainStep::complete_gradients() {
  if (is_reducing_) return;
  if (accumulated_.span.empty()) {
    replica_.backend().set_zero(replica_.gradients());
  } else {
    replica_.backend().copy(accumulated_.span, replica_.gradients());
  }
  replica_.reducer().begin();
  is_reducing_ = true;
}

void TrainStep::reduce() {
  complete_gradients();
  replica_.reducer().wait();
  sum_of_samples() = static_cast<double>(num_samples_);
  sum_of_replicas() = has_batch_ ? 1.0 : 0.0;
  updater_->measure(divisor_ / std::max(1.0, num_valid_), sums_);
}

void TrainStep::average_buffers() {
  const DeviceSpan buffers = replica_.buffers();
  if (replica_.control().world() == 1 || buffers.empty()) return;
  if (!has_batch_) replica_.backend().set_zero(buffers);
  replica_.backend().average(buffers, sum_of_replicas(), replica_.control());
}

void TrainStep::update(float lr, std::int64_t global_step) {
  has_updated_ = num_valid_ > 0.0;
  if (!has_updated_) return;
  await_weights();
  updater_->update({.lr = lr,
                    .step = global_step,
                    .gradient_scale = divisor_ / num_valid_,
                    .is_finite = std::isfinite(sums_.front())});
  if (replica_.weight_gather() != nullptr) replica_.weight_gather()->begin();
  replica_.parameters_changed();
}

void TrainStep::restore_buffers() {
  replica_.backend().copy(kept_buffers_.span, replica_.buffers());
}

StepTimer::StepTimer(Replica& replica)
    : replica_(replica), lap_(std::chrono::steady_clock::now()), waited_(peer_wait()) {}

std::chrono::nanoseconds StepTimer::peer_wait() const {
  const auto gather = replica_.weight_gather() == nullptr ? std::chrono::nanoseconds()
                                                          : replica_.weight_gather()->peer_wait();
  return replica_.control().peer_wait() + replica_.reducer().peer_wait() + gather;
}

double StepTimer::end_lap() {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - lap_).count();
  lap_ = now;
  return elapsed;
}

void StepTimer::lap(double StepTimes::*part) {
  times_.*part += end_lap();
  waited_ = peer_wait();
}

void StepTimer::lap_collectives() {
  const double elapsed = end_lap();
  const auto waited_now = peer_wait();
  const std::chrono::duration<double> waited = waited_now - waited_;
  const double peers = std::min(elapsed, waited.count());
  times_.peer_wait += peers;
  times_.reduce += elapsed - peers;
  waited_ = waited_now;
}

}  // namespace millrace::trainer::detail
