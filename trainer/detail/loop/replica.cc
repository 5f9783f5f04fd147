#include "trainer/detail/loop/replica.h"

#include <utility>

#include "io/base/check.h"

namespace millrace::trainer::detail {
namespace {

std::unique_ptr<BackendReplica> replica_of(Backend& backend, const ReplicaSetup& like,
                                           const Model* model) {
  if (model == nullptr) return nullptr;
  return backend.make_replica({.device = like.device,
                               .model = *model,
                               .objective = like.objective,
                               .precision = like.precision,
                               .weights = like.weights,
                               .buffers = like.buffers,
                               .control = like.control,
                               .trace = like.trace});
}

ReplicaSetup with_buffers(ReplicaSetup setup, DeviceSpan buffers) {
  setup.buffers = buffers;
  return setup;
}

std::vector<const Collectives*> all_of(const ReplicaSetup& setup, const TrainingGroups& groups) {
  std::vector<const Collectives*> all{&setup.control};
  if (groups.gradients != nullptr) all.push_back(groups.gradients);
  if (groups.weights != nullptr) all.push_back(groups.weights);
  return all;
}

}  // namespace

Replica::Replica(Backend& backend, const ReplicaSetup& setup, const TrainingGroups& groups,
                 const Model* evaluation_model)
    : buffers_(backend.allocate(setup.model.buffers().padded_size())),
      setup_(with_buffers(setup, buffers_.span)),
      groups_(groups),
      clock_(all_of(setup, groups), setup.trace),
      steps_(backend.make_replica(setup_)),
      evaluates_(replica_of(backend, setup_, evaluation_model)),
      backend_(backend) {}

void Replica::make_step(const TrainOptions& options, std::vector<DeviceSpan> states,
                        DeviceSpan ema) {
  ema_ = ema;
  MILLRACE_CHECK(groups_.gradients != nullptr, "a replica that does not train");
  step_ = steps_->make_step({.optimizer = options.optimizer,
                             .clip = options.clip,
                             .ema_decay = options.ema_decay,
                             .accumulate = options.accumulate,
                             .reducer = options.reducer,
                             .states = std::move(states),
                             .ema = ema,
                             .gradient_group = *groups_.gradients,
                             .weight_group = groups_.weights,
                             .clock = clock_});
}

// Training changes the weights without telling another's plans.
std::unique_ptr<EvaluationStep> Replica::make_evaluation() {
  if (evaluates_ == nullptr) return steps_->make_evaluation();
  evaluates_->weights_changed();
  return evaluates_->make_evaluation();
}

std::vector<CompileEvent> Replica::take_compilations() {
  std::vector<CompileEvent> events = steps_->take_compilations();
  if (evaluates_ == nullptr) return events;
  for (CompileEvent& event : evaluates_->take_compilations()) events.push_back(std::move(event));
  return events;
}

void Replica::write_start(std::size_t parameter, std::span<const float> values) {
  const std::size_t offset = setup_.model.parameters().entries()[parameter].offset;
  backend_.write(values, setup_.weights.subspan(offset, values.size()));
  if (!ema_.empty()) backend_.write(values, ema_.subspan(offset, values.size()));
}

}  // namespace millrace::trainer::detail
