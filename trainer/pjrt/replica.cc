#include "trainer/pjrt/replica.h"

#include <deque>
#include <limits>
#include <utility>

#include "io/base/error.h"
#include "trainer/pjrt/step.h"

namespace millrace::trainer {
namespace {

using hlo::Role;

/// Batches whose results are not read yet, so that a device has the next one while the host reads.
constexpr std::size_t kInFlight = 2;

std::size_t count_of(const hlo::ProgramValue& value) {
  return static_cast<std::size_t>(nn::num_values(value.shape));
}

/// The float32 results with this role, on the host.
std::vector<std::vector<float>> read_results(const hlo::Program& program,
                                             const DeviceArrays& results, Role role) {
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (program.results[i].role == role)
      values.push_back(values_of(results[i], count_of(program.results[i])));
  return values;
}

class PjrtEvaluation final : public EvaluationStep {
 public:
  explicit PjrtEvaluation(PjrtReplica& replica) : replica_(replica) {
    found_.sums.resize(replica.setup().objective.num_sums());
  }

  void add(const pipeline::Batch& batch) override {
    replica_.check_targets(batch);
    const CompiledProgram& program =
        replica_.program(ProgramKind::kEvaluation, shape_of(batch, replica_.setup().objective));
    pending_.push_back(
        {.program = &program.manifest, .results = replica_.run(program, batch), .batch = batch});
    while (pending_.size() > kInFlight) settle_one();
  }
  EvaluationOutcome outcome() override {
    while (!pending_.empty()) settle_one();
    return found_;
  }

 private:
  struct Pending {
    const hlo::Program* program;
    DeviceArrays results;
    pipeline::Batch batch;  ///< whose targets are recorded
  };

  void settle_one() {
    const Pending one = std::move(pending_.front());
    pending_.pop_front();
    const auto numbers = [&](Role role) {
      return read_results(*one.program, one.results, role).front();
    };
    const std::vector<float> sums = numbers(Role::kSums);
    for (std::size_t i = 0; i < sums.size(); ++i) found_.sums[i] += static_cast<double>(sums[i]);
    found_.samples += static_cast<double>(numbers(Role::kNumSamples).front());
    const auto non_finite = static_cast<std::int64_t>(numbers(Role::kNonFinite).front());
    found_.non_finite += non_finite;
    if (non_finite > 0) found_.sums.front() = std::numeric_limits<double>::quiet_NaN();
    record(one);
  }

  void record(const Pending& one) {
    auto values = read_results(*one.program, one.results, Role::kOutput);
    if (values.empty()) return;
    std::vector<nn::OutputView> outputs(replica_.graph().outputs().size());
    auto next = values.begin();
    for (const hlo::ProgramValue& value : one.program->results) {
      if (value.role != Role::kOutput) continue;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (replica_.graph().outputs()[i].name == value.name) outputs[i] = {value.shape, *next};
      ++next;
    }
    replica_.setup().objective.add_records(one.batch, outputs, found_.records);
  }

  PjrtReplica& replica_;
  std::deque<Pending> pending_;
  EvaluationOutcome found_;
};

class PjrtPrediction final : public PredictionStep {
 public:
  explicit PjrtPrediction(PjrtReplica& replica) : replica_(replica) {}

  std::vector<nn::OutputView> outputs(const pipeline::Batch& batch) override {
    const CompiledProgram& program =
        replica_.program(ProgramKind::kPrediction, shape_of(batch, replica_.setup().objective));
    values_ = read_results(program.manifest, replica_.run(program, batch), Role::kOutput);
    std::vector<nn::OutputView> views;
    for (std::size_t i = 0; i < values_.size(); ++i)
      views.push_back({program.manifest.results[i].shape, values_[i]});
    return views;
  }

 private:
  PjrtReplica& replica_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

void ReplicaTeam::join() {
  const std::scoped_lock lock(mutex_);
  ++size_;
}

void ReplicaTeam::leave(std::size_t device) {
  const std::scoped_lock lock(mutex_);
  --size_;
  steps_.erase(device);
}

int ReplicaTeam::size() const {
  const std::scoped_lock lock(mutex_);
  return size_;
}

void ReplicaTeam::add(std::size_t device, PjrtStep& step) {
  const std::scoped_lock lock(mutex_);
  steps_[device] = &step;
}

std::vector<PjrtStep*> ReplicaTeam::steps() const {
  const std::scoped_lock lock(mutex_);
  std::vector<PjrtStep*> all;
  for (const auto& [device, step] : steps_) all.push_back(step);
  return all;
}

PjrtReplica::PjrtReplica(std::shared_ptr<ReplicaTeam> team, const ReplicaSetup& setup)
    : team_(std::move(team)), setup_(setup) {
  require(device() < client().devices().size(), "a replica for each device of the plugin, at most");
  if (setup.model.graph() == nullptr)
    throw Error(ErrorCode::kUnsupported,
                "model " + setup.model.name() + " is not a graph, of which a program is made");
  for (const nn::GraphOutput& output : graph().outputs())
    outputs_.push_back(graph().node(output.value).shape);
  team_->join();
}

PjrtReplica::~PjrtReplica() { team_->leave(device()); }

std::unique_ptr<ReplicaStep> PjrtReplica::make_step(const StepSetup& setup) {
  return std::make_unique<PjrtStep>(*this, setup);
}

std::unique_ptr<EvaluationStep> PjrtReplica::make_evaluation() {
  return std::make_unique<PjrtEvaluation>(*this);
}

std::unique_ptr<PredictionStep> PjrtReplica::make_prediction() {
  return std::make_unique<PjrtPrediction>(*this);
}

std::vector<CompileEvent> PjrtReplica::take_compilations() {
  for (CompileEvent& event : compilations_) event.rank = setup_.control.rank();
  return std::exchange(compilations_, {});
}

namespace {

const DeviceArrays& no_arrays() {
  static const DeviceArrays kNone;
  return kNone;
}

}  // namespace

const DeviceArrays& PjrtReplica::weights() {
  if (setup_.weights.empty()) return no_arrays();
  return FlatBuffer::of(setup_.weights).on(client(), device(), setup_.model.parameters());
}

const DeviceArrays& PjrtReplica::buffers() {
  if (setup_.buffers.empty()) return no_arrays();
  return FlatBuffer::of(setup_.buffers).on(client(), device(), setup_.model.buffers());
}

void PjrtReplica::check_targets(const pipeline::Batch& batch) const {
  setup_.objective.check_targets(batch, outputs_);
}

DeviceArrays PjrtReplica::run(const CompiledProgram& program, const pipeline::Batch& batch) {
  const BatchArrays arrays = land(client(), device(), program.manifest, batch);
  Arguments arguments(program.manifest);
  arguments.give(Role::kWeight, weights());
  arguments.give(Role::kBuffer, buffers());
  arrays.give_to(arguments);
  return program.program.run_on(device(), arguments.take());
}

}  // namespace millrace::trainer
