#include "trainer/plan_profile.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include "decode/array.h"
#include "io/base/error.h"
#include "io/base/rng.h"

namespace millrace::trainer {
namespace {

using WallClock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const WallClock::time_point start = WallClock::now();
  work();
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<std::byte> random_input(std::size_t count, decode::DType dtype, KeyedRng& rng) {
  const bool half = dtype == decode::DType::kBFloat16;
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  if (!half) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::uint16_t> rounded(count);
  std::ranges::transform(values, rounded.begin(), decode::to_bfloat16);
  const auto bytes = std::as_bytes(std::span(rounded));
  return {bytes.begin(), bytes.end()};
}

/// A replica's plan with its buffers and a batch.
class Trainee {
 public:
  Trainee(const Model& model, const nn::PlanOptions& options, std::uint64_t seed)
      : parameters_(model.parameters().padded_size()),
        gradients_(parameters_.size()),
        buffers_(model.buffers().padded_size()) {
    if (model.graph() == nullptr)
      throw Error(ErrorCode::kUnsupported, "a model without a graph has no plan to describe");
    model.initialise(seed, parameters_, buffers_);
    KeyedRng rng({.seed = seed});
    for (const nn::Value input : model.graph()->inputs()) {
      const auto values = nn::num_values(model.graph()->node(input).shape) * options.batch_size;
      inputs_.push_back(random_input(static_cast<std::size_t>(values), options.input_dtype, rng));
    }
    for (const std::vector<std::byte>& input : inputs_) views_.emplace_back(input);
    plan_ = model.compile(
        options, {.parameters = parameters_, .gradients = gradients_, .buffers = buffers_});
    for (std::size_t i = 0; i < plan_->num_outputs(); ++i) {
      for (float& value : plan_->output_gradient(i).data)
        value = static_cast<float>(rng.normal() / static_cast<double>(options.batch_size));
    }
  }

  nn::Plan& plan() { return *plan_; }
  void forward() { plan_->forward(views_, nn::Mode::kTrain); }
  void backward() {
    plan_->backward(nullptr);
    plan_->parameters_changed();  // as an update does after each step
  }

 private:
  std::vector<float> parameters_, gradients_, buffers_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::span<const std::byte>> views_;
  std::unique_ptr<nn::Plan> plan_;
};

/// One list for each of the steps.
using Times = std::vector<std::vector<double>>;

void check_stop(const ProfileOptions& by) {
  if (by.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the timing was stopped");
}

void time_steps(Trainee& trainee, Times& times) {
  std::vector<double> seconds(times.size());
  trainee.plan().time_into(seconds);
  trainee.forward();
  trainee.backward();
  trainee.plan().time_into({});
  for (std::size_t i = 0; i < times.size(); ++i) times[i].push_back(seconds[i]);
}

/// What one of the steps reaches, the processor does.
void raise_peak(PlanProfile& profile) {
  double& peak = profile.peaks.flops;
  for (std::size_t i = 0; i < profile.steps.size(); ++i)
    if (profile.seconds[i] > 0) peak = std::max(peak, profile.steps[i].flops / profile.seconds[i]);
}

}  // namespace

double PlanProfile::sum_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double PlanProfile::limit_share(std::size_t index) const {
  return seconds[index] > 0 ? peaks.least_seconds(steps[index]) / seconds[index] : 0.0;
}

PlanProfile profile_plan(const Model& model, const nn::PlanOptions& options,
                         const ProfileOptions& by) {
  Trainee trainee(model, options, by.seed);
  PlanProfile profile{.steps = trainee.plan().describe(),
                      .seconds = {},
                      .peaks = nn::measure_peaks(options.precision),
                      .threads = omp_get_max_threads()};
  if (profile.steps.empty())
    throw Error(ErrorCode::kUnsupported, "the model's plan does not describe itself");
  trainee.forward();  // oneDNN generates some of its code as it first runs
  trainee.backward();
  Times times(profile.steps.size());
  std::vector<double> forward;
  std::vector<double> backward;
  const WallClock::time_point begin = WallClock::now();
  const std::chrono::duration<double> budget(by.seconds);
  const auto goes_on = [&](std::int64_t done) {
    if (by.max_steps > 0 && done >= by.max_steps) return false;
    return done < by.min_steps || WallClock::now() - begin < budget;
  };
  for (std::int64_t i = 0; goes_on(i); ++i) {
    check_stop(by);
    time_steps(trainee, times);
    forward.push_back(seconds_of([&] { trainee.forward(); }));
    backward.push_back(seconds_of([&] { trainee.backward(); }));
  }
  for (const std::vector<double>& of_step : times) profile.seconds.push_back(median(of_step));
  raise_peak(profile);
  profile.forward_seconds = median(forward);
  profile.backward_seconds = median(backward);
  return profile;
}

}  // namespace millrace::trainer
