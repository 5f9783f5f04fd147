#include "trainer/detail/step/composed_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace millrace::trainer::detail {
namespace {

/// What a graph's plans read rounded in bf16: weights of convolutions and linear layers, not biases
/// and norms.
std::vector<ValueRange> rounded_weights(const Model& model, nn::Precision precision) {
  std::vector<ValueRange> ranges;
  if (precision != nn::Precision::kBFloat16 || model.graph() == nullptr) return ranges;
  for (const Parameter& entry : model.parameters().entries())
    if (entry.shape.size() > 1) ranges.emplace_back(entry.offset, entry.offset + entry.size);
  return ranges;
}

}  // namespace

ComposedStep::ComposedStep(ComposedReplica& replica, const StepSetup& setup)
    : replica_(replica),
      backend_(replica.backend()),
      setup_(setup),
      reducer_(backend_.make_reducer(replica.gradients(), setup.gradient_group, setup.reducer)),
      kept_buffers_(backend_.allocate(buffers().size())),
      sums_(replica.setup().objective.num_sums() + 2) {
  const ReplicaSetup& run = replica.setup();
  if (setup.accumulate > 1) accumulated_ = backend_.allocate(replica.gradients().size());
  if (setup.weight_group != nullptr)
    weight_gather_ = std::make_unique<WeightGather>(backend_, run.weights, reducer_->buckets(),
                                                    *setup.weight_group,
                                                    rounded_weights(run.model, run.precision));
  updater_ = backend_.make_updater({.optimizer = setup.optimizer,
                                    .parameters = run.model.parameters(),
                                    .clip = setup.clip,
                                    .ema_decay = setup.ema_decay,
                                    .weights = run.weights,
                                    .states = setup.states,
                                    .ema = setup.ema,
                                    .gradients = replica.gradients(),
                                    .buffers = run.buffers,
                                    .kept_buffers = kept_buffers_.span,
                                    .owned = reducer_->owned(),
                                    .group = run.control});
}

void ComposedStep::begin() {
  num_valid_ = 0;
  num_samples_ = 0;
  has_batch_ = false;
  is_reducing_ = false;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  backend_.set_zero(accumulated_.span);
  backend_.copy(buffers(), kept_buffers_.span);
}

/// One for all micro-batches of a step, though the later ones may be smaller. How many samples an
/// accumulated step will have is not known yet: its gradients are divided by the most there may be,
/// and scaled in the update.
double ComposedStep::divisor_for(const MicroBatch& first) {
  if (setup_.accumulate == 1) return std::max(1.0, first.num_valid);
  return static_cast<double>(setup_.accumulate * first.batch_size) * control().world();
}

void ComposedStep::add(const MicroBatch& micro) {
  if (micro_batches_ == 0) begin();
  ++micro_batches_;
  num_valid_ += micro.num_valid;
  if (micro_batches_ == 1) divisor_ = divisor_for(micro);
  // A batch without a sample counts nowhere, in the buffers' average neither.
  if (micro.batch != nullptr && micro.batch->num_valid > 0) {
    run_batch(micro);
  } else if (micro.num_valid > 0) {
    objective().score_nothing(control());
  }
}

void ComposedStep::run_batch(const MicroBatch& micro) {
  const pipeline::Batch& batch = *micro.batch;
  nn::Plan& plan = replica_.forward(
      batch, nn::Mode::kTrain, [&](std::size_t offset) { wait_for(offset); }, micro.random_key);
  if (objective().is_collective()) setup_.clock.lap(&StepTimes::forward);
  replica_.score(
      {.plan = plan, .batch = batch, .gradients = true, .divisor = divisor_, .group = &control()},
      own_sums());
  if (objective().is_collective()) setup_.clock.lap_collectives();
  setup_.clock.lap(&StepTimes::forward);
  backward(plan);
  has_batch_ = true;
  num_samples_ += batch.num_valid;
  setup_.clock.lap(&StepTimes::backward);
}

/// Returns when the weights at and behind `offset` are those of all processes.
void ComposedStep::wait_for(std::size_t offset) {
  if (weight_gather_ == nullptr || weight_gather_->has(offset)) return;
  setup_.clock.lap(&StepTimes::forward);
  weight_gather_->wait_for(offset);
  setup_.clock.lap_collectives();
}

void ComposedStep::backward(nn::Plan& plan) {
  const DeviceSpan gradients = replica_.gradients();
  const DeviceSpan before = accumulated_.span;
  const auto begin = std::chrono::steady_clock::now();
  if (micro_batches_ < setup_.accumulate) {
    plan.backward([](std::size_t) {});
    replica_.trace_layers(plan, nn::PlanPass::kBackward, begin);
    backend_.add(before, gradients);
    return;
  }
  reducer_->begin();
  is_reducing_ = true;
  std::size_t done = 0;
  plan.backward([&](std::size_t ready) {
    if (!before.empty()) {
      backend_.add(gradients.subspan(done, ready - done), before.subspan(done, ready - done));
      done = ready;
    }
    reducer_->gradients_ready(ready);
  });
  replica_.trace_layers(plan, nn::PlanPass::kBackward, begin);
}

// If this replica had no batch in the last micro-batch, or the epoch ended within the step.
void ComposedStep::complete_gradients() {
  if (is_reducing_) return;
  if (accumulated_.span.empty()) {
    backend_.set_zero(replica_.gradients());
  } else {
    backend_.copy(accumulated_.span, replica_.gradients());
  }
  reducer_->begin();
  is_reducing_ = true;
}

void ComposedStep::apply(const StepNumbers& numbers) {
  reduce();
  is_intact_ = false;  // from here on a replica that fails is behind those that have updated
  average_buffers();
  setup_.clock.lap_collectives();
  update(numbers);
  micro_batches_ = 0;
  is_intact_ = true;
  setup_.clock.lap(&StepTimes::update);
}

// Until it returns, only buffers have changed, on any replica.
void ComposedStep::reduce() {
  complete_gradients();
  reducer_->wait();
  sum_of_samples() = static_cast<double>(num_samples_);
  sum_of_replicas() = has_batch_ ? 1.0 : 0.0;
  updater_->measure(divisor_ / std::max(1.0, num_valid_), sums_);
}

void ComposedStep::average_buffers() {
  if (control().world() == 1 || buffers().empty() || sum_of_replicas() == 0.0) return;
  if (!has_batch_) backend_.set_zero(buffers());
  backend_.average(buffers(), sum_of_replicas(), control());
}

void ComposedStep::update(const StepNumbers& numbers) {
  has_updated_ = num_valid_ > 0.0;
  if (!has_updated_) return;
  wait_for(0);
  updater_->update({.lr = numbers.lr,
                    .step = numbers.step,
                    .gradient_scale = divisor_ / num_valid_,
                    .is_finite = std::isfinite(sums_.front()),
                    .base_lr = numbers.base_lr,
                    .skipped = numbers.skipped});
  if (weight_gather_ != nullptr) weight_gather_->begin();
  replica_.weights_changed();
}

StepOutcome ComposedStep::outcome() {
  return {.sums = {own_sums().begin(), own_sums().end()},
          .samples = sum_of_samples(),
          .is_finite = !has_updated_ || updater_->was_finite()};
}

void ComposedStep::await_weights() {
  wait_for(0);
  if (weight_gather_ == nullptr) return;
  gather(replica_.setup().weights);
  for (const DeviceSpan state : setup_.states) gather(state);
  if (!setup_.ema.empty()) gather(setup_.ema);
}

/// Copies this replica's ranges of `values` to the other processes, exactly.
void ComposedStep::gather(DeviceSpan values) {
  for (const Range& bucket : reducer_->buckets())
    backend_.all_gather(values.subspan(bucket.begin, bucket.size()), control());
}

void ComposedStep::discard() {
  if (micro_batches_ > 0) backend_.copy(kept_buffers_.span, buffers());
  micro_batches_ = 0;
}

}  // namespace millrace::trainer::detail
