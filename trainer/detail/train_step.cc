#include "trainer/detail/train_step.h"

#include <algorithm>
#include <cmath>

#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {
namespace {

std::int64_t bytes_of(const pipeline::Batch& batch) {
  std::int64_t bytes = 0;
  for (const auto& field : batch.fields) bytes += static_cast<std::int64_t>(field.data.size());
  return bytes;
}

}  // namespace

TrainStep::TrainStep(const TrainStepSetup& setup, Replica& replica, StepTimer& timer)
    : setup_(setup), replica_(replica), timer_(timer), sums_(replica.objective().num_sums() + 3) {
  if (setup.options.accumulate > 1) accumulated_.resize(replica.gradients().size());
}

void TrainStep::begin() {
  micro_batches_ = 0;
  num_valid_ = 0;
  num_samples_ = 0;
  num_bytes_ = 0;
  has_batch_ = false;
  is_reducing_ = false;
  std::fill(accumulated_.begin(), accumulated_.end(), 0.0F);
  std::fill(sums_.begin(), sums_.end(), 0.0);
  kept_buffers_.assign(replica_.buffers().begin(), replica_.buffers().end());
}

void TrainStep::add(const MicroBatch& micro) {
  // How many samples an accumulated step will have is not known yet: its gradients are divided by
  // how many there may be, and scaled when it is.
  const std::int64_t accumulate = setup_.options.accumulate;
  num_valid_ += micro.num_valid;
  divisor_ = accumulate == 1
                 ? std::max(1.0, num_valid_)
                 : static_cast<double>(accumulate * micro.batch_size) * replica_.control().world();
  if (micro.batch != nullptr) run_batch(micro);
  ++micro_batches_;
}

void TrainStep::run_batch(const MicroBatch& micro) {
  const pipeline::Batch& batch = *micro.batch;
  nn::Plan& plan = replica_.plan_for(batch);
  plan.set_random_key(micro.random_key);
  plan.forward(replica_.inputs_of(batch), nn::Mode::kTrain);
  replica_.objective().score({.plan = plan, .batch = batch, .gradients = true, .divisor = divisor_},
                             std::span(sums_).first(replica_.objective().num_sums()));
  timer_.lap(&StepTimes::forward);
  backward(plan);
  has_batch_ = true;
  num_samples_ += batch.num_valid;
  num_bytes_ += bytes_of(batch);
  timer_.lap(&StepTimes::backward);
}

void TrainStep::backward(nn::Plan& plan) {
  const std::span<float> gradients = replica_.gradients();
  if (micro_batches_ + 1 < setup_.options.accumulate) {
    plan.backward([](std::size_t) {});
    flat::add(accumulated_, gradients);
    return;
  }
  replica_.reducer().begin();
  is_reducing_ = true;
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

// Where this replica had no batch at the step's end, or the epoch ended in the step's middle.
void TrainStep::complete_gradients() {
  if (is_reducing_) return;
  const std::span<float> gradients = replica_.gradients();
  if (accumulated_.empty()) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
  } else {
    std::copy(accumulated_.begin(), accumulated_.end(), gradients.begin());
  }
  replica_.reducer().begin();
  is_reducing_ = true;
}

// Bounds the gradients that this replica owns; the sum of their squares.
double TrainStep::clip_values(double scale) {
  const ClipOptions& clip = setup_.options.clip;
  if (clip.norm <= 0.0 && clip.value <= 0.0F) return 0.0;
  double squares = 0.0;
  for (const Range& range : replica_.reducer().owned()) {
    const auto gradients = replica_.gradients().subspan(range.begin, range.size());
    if (clip.value > 0.0F) flat::clamp(gradients, clip.value / static_cast<float>(scale));
    squares += flat::square_sum(gradients);
  }
  return squares * scale * scale;
}

void TrainStep::reduce() {
  complete_gradients();
  replica_.reducer().wait();
  sum_of_samples() = static_cast<double>(num_samples_);
  sum_of_squares() = clip_values(divisor_ / std::max(1.0, num_valid_));
  sum_of_replicas() = has_batch_ ? 1.0 : 0.0;
  replica_.control().all_reduce(std::span<double>(sums_));
}

void TrainStep::average_buffers() {
  const std::span<float> buffers = replica_.buffers();
  if (replica_.control().world() == 1 || buffers.empty()) return;
  if (!has_batch_) std::fill(buffers.begin(), buffers.end(), 0.0F);
  replica_.control().all_reduce(buffers);
  flat::scale(buffers, 1.0F / static_cast<float>(sum_of_replicas()));
}

bool TrainStep::is_finite() const {
  return std::isfinite(sums_.front()) && std::isfinite(sums_[sums_.size() - 2]);
}

Update TrainStep::make_update(float lr, std::int64_t global_step) const {
  double scale = divisor_ / num_valid_;
  const double norm = std::sqrt(sums_[sums_.size() - 2]);
  const double bound = setup_.options.clip.norm;
  if (bound > 0.0 && norm > bound) scale *= bound / (norm + 1e-6);  // as torch's clip_grad_norm_
  return {.weights = setup_.weights,
          .gradients = replica_.gradients(),
          .lr = lr,
          .gradient_scale = static_cast<float>(scale),
          .step = global_step};
}

void TrainStep::update(float lr, std::int64_t global_step) {
  if (num_valid_ <= 0.0) return;
  Update update = make_update(lr, global_step);
  const std::vector<Range>& owned = replica_.reducer().owned();
  std::vector<double> square_sums(setup_.optimizer.num_square_sums());
  if (!square_sums.empty()) {
    for (const Range& range : owned) setup_.optimizer.add_square_sums(update, range, square_sums);
    replica_.control().all_reduce(std::span<double>(square_sums));
    update.square_sums = square_sums;
  }
  for (const Range& range : owned) setup_.optimizer.update(update, range);
  if (!setup_.ema.empty()) update_ema();
  replica_.parameters_changed();
}

void TrainStep::update_ema() {
  const auto decay = static_cast<float>(setup_.options.ema_decay);
  for (const Range& range : replica_.reducer().owned()) {
    flat::update_ema(setup_.ema.subspan(range.begin, range.size()),
                     setup_.weights.subspan(range.begin, range.size()), decay);
  }
}

void TrainStep::restore_buffers() {
  std::copy(kept_buffers_.begin(), kept_buffers_.end(), replica_.buffers().begin());
}

}  // namespace millrace::trainer::detail
