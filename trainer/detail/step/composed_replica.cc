#include "trainer/detail/step/composed_replica.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "io/base/check.h"
#include "trainer/detail/flat_math.h"
#include "trainer/detail/step/composed_step.h"
#include "trainer/input_shapes.h"

namespace millrace::trainer::detail {
namespace {

/// Marks the slots with a value that is not finite.
void mark_non_finite(std::span<const float> values, std::vector<bool>& marks) {
  if (flat::all_finite(values)) return;
  const std::size_t width = values.size() / marks.size();
  for (std::size_t slot = 0; slot < marks.size(); ++slot)
    if (!flat::all_finite(values.subspan(slot * width, width))) marks[slot] = true;
}

std::int64_t count_non_finite(nn::Plan& plan, const pipeline::Batch& batch) {
  std::vector<bool> marks(static_cast<std::size_t>(batch.size));
  for (std::size_t i = 0; i < plan.num_outputs(); ++i) mark_non_finite(plan.output(i).data, marks);
  std::int64_t count = 0;
  for (std::size_t slot = 0; slot < marks.size(); ++slot)
    count += marks[slot] && batch.valid[slot] != 0 ? 1 : 0;
  return count;
}

class ComposedEvaluation final : public EvaluationStep {
 public:
  explicit ComposedEvaluation(ComposedReplica& replica) : replica_(replica) {
    found_.sums.resize(replica.setup().objective.num_sums());
  }

  void add(const pipeline::Batch& batch) override {
    nn::Plan& plan = replica_.forward(batch, nn::Mode::kEvaluate);
    found_.non_finite +=
        replica_.score({.plan = plan, .batch = batch, .records = &found_.records}, found_.sums);
    found_.samples += static_cast<double>(batch.num_valid);
  }
  EvaluationOutcome outcome() override { return found_; }

 private:
  ComposedReplica& replica_;
  EvaluationOutcome found_;
};

class ComposedPrediction final : public PredictionStep {
 public:
  explicit ComposedPrediction(ComposedReplica& replica) : replica_(replica) {}

  std::vector<nn::OutputView> outputs(const pipeline::Batch& batch) override {
    nn::Plan& plan = replica_.forward(batch, nn::Mode::kEvaluate);
    std::vector<nn::OutputView> views;
    for (std::size_t i = 0; i < plan.num_outputs(); ++i) views.push_back(plan.output(i));
    return views;
  }

 private:
  ComposedReplica& replica_;
};

}  // namespace

std::unique_ptr<ReplicaStep> ComposedReplica::make_step(const StepSetup& setup) {
  MILLRACE_CHECK(plans_.empty(), "plans without gradients: a replica's step is made first");
  gradients_ = backend_.allocate(setup_.model.parameters().padded_size());
  return std::make_unique<ComposedStep>(*this, setup);
}

std::unique_ptr<EvaluationStep> ComposedReplica::make_evaluation() {
  return std::make_unique<ComposedEvaluation>(*this);
}

std::unique_ptr<PredictionStep> ComposedReplica::make_prediction() {
  return std::make_unique<ComposedPrediction>(*this);
}

void ComposedReplica::weights_changed() {
  for (const auto& [key, plan] : plans_) plan->parameters_changed();
}

std::vector<CompileEvent> ComposedReplica::take_compilations() {
  return std::exchange(compilations_, {});
}

nn::Plan& ComposedReplica::forward(const pipeline::Batch& batch, nn::Mode mode,
                                   const nn::ParametersNeeded& needed, const nn::BatchKey& key) {
  nn::Plan& plan = plan_for(batch);
  std::vector<std::span<const std::byte>> inputs;
  for (const std::string& name : setup_.objective.inputs())
    inputs.emplace_back(batch.field(name).data);
  if (mode == nn::Mode::kTrain) plan.set_random_key(key);
  const auto begin = std::chrono::steady_clock::now();
  plan.forward(inputs, mode, needed);
  trace_layers(plan, nn::PlanPass::kForward, begin);
  return plan;
}

nn::Plan& ComposedReplica::plan_for(const pipeline::Batch& batch) {
  const decode::DType dtype = batch.field(setup_.objective.inputs().front()).spec.dtype;
  auto& plan = plans_[{batch.size, dtype}];
  if (plan == nullptr) plan = compile(batch, dtype);
  return *plan;
}

std::unique_ptr<nn::Plan> ComposedReplica::compile(const pipeline::Batch& batch,
                                                   decode::DType dtype) {
  if (const nn::Graph* graph = setup_.model.graph()) check_inputs(*graph, setup_.objective, batch);
  const auto start = std::chrono::steady_clock::now();
  auto plan = backend_.compile(
      setup_.model, {.batch_size = batch.size, .precision = setup_.precision, .input_dtype = dtype},
      {.parameters = setup_.weights, .gradients = gradients(), .buffers = setup_.buffers});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  compilations_.push_back({.rank = setup_.control.rank(),
                           .shape = std::to_string(batch.size) + " x " + setup_.model.name() + " " +
                                    std::string(decode::dtype_name(dtype)),
                           .seconds = seconds.count(),
                           .activation_bytes = plan->activation_bytes()});
  time_layers(*plan);
  return plan;
}

void ComposedReplica::time_layers(nn::Plan& plan) {
  Tracer* const tracer = setup_.trace.tracer;
  if (tracer == nullptr || !tracer->options().layers) return;
  LayerTimes times;
  for (const nn::PlanStep& step : plan.describe()) {
    times.passes.push_back(step.pass);
    times.names.push_back(
        tracer->keep(step.layer + ": " + step.kind + (step.part.empty() ? "" : " " + step.part)));
  }
  times.seconds.resize(times.names.size());
  plan.time_into(layers_.emplace(&plan, std::move(times)).first->second.seconds);
}

void ComposedReplica::trace_layers(const nn::Plan& plan, nn::PlanPass pass,
                                   TraceEvent::Time begin) const {
  constexpr std::int64_t kFirstTrack = 10'001'000;  // beyond a system's threads
  const auto times = layers_.find(&plan);
  if (times == layers_.end() || !setup_.trace.is_recording()) return;
  const TraceTrack track{setup_.trace.tracer,
                         setup_.trace.tracer->keep(std::string(setup_.trace.role) + " layers")};
  const auto& [passes, names, seconds] = times->second;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i] != pass) continue;
    const auto end = begin + std::chrono::round<std::chrono::nanoseconds>(
                                 std::chrono::duration<double>(seconds[i]));
    track.span(
        {.name = names[i], .begin = begin, .end = end, .thread = kFirstTrack + setup_.device});
    begin = end;
  }
}

std::int64_t ComposedReplica::score(const ScoreRequest& request, std::span<double> sums) {
  backend_.score(setup_.objective, request, sums);
  const std::int64_t count = count_non_finite(request.plan, request.batch);
  if (count > 0) sums.front() = std::nan("");
  return count;
}

}  // namespace millrace::trainer::detail
