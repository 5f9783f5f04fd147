#include "trainer/detail/loop/replica_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "io/base/error.h"
#include "trainer/composed_backend.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/collectives/traced_collectives.h"
#include "trainer/detail/loop/failure.h"

namespace millrace::trainer::detail {

namespace {

void check_same_entries(const ParameterTable& has, const ParameterTable& wanted,
                        const std::string& model) {
  const auto same = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  if (std::ranges::equal(has.entries(), wanted.entries(), same)) return;
  const auto [one, other] = std::ranges::mismatch(has.entries(), wanted.entries(), same);
  const std::string name = one != has.entries().end() ? one->name : other->name;
  throw Error(
      ErrorCode::kInvalidArgument,
      "model " + model + ": " + name + " is not the same for the pictures of the evaluation");
}

void check_evaluation_model(const GroupSetup& setup) {
  if (setup.evaluation_model == nullptr) return;
  const std::string& name = setup.model.name();
  check_same_entries(setup.model.parameters(), setup.evaluation_model->parameters(), name);
  check_same_entries(setup.model.buffers(), setup.evaluation_model->buffers(), name);
}

ReplicaThreads& checked_devices(const GroupSetup& setup) {
  check_evaluation_model(setup);
  const nn::Graph* graph = setup.model.graph();
  for (const Head& head : setup.objective.heads())
    if (graph != nullptr && head.output >= graph->outputs().size())
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the objective reads output {} of {}, which has {}", head.output,
                              setup.model.name(), graph->outputs().size()));
  return setup.devices;
}

TraceTrack track_of(const GroupSetup& setup, int device, const std::string& what) {
  if (setup.trace == nullptr) return {};
  return {setup.trace, setup.trace->keep(setup.devices.name(device) + what)};
}

/// `what` names the threads of the group, beside their devices.
std::vector<std::unique_ptr<Collectives>> make_traced(const GroupSetup& setup,
                                                      const std::string& what) {
  auto group = setup.cluster.make_group();
  if (setup.trace == nullptr) return group;
  for (std::size_t device = 0; device < group.size(); ++device)
    group[device] = trace_collectives(std::move(group[device]),
                                      track_of(setup, static_cast<int>(device), what));
  return group;
}

}  // namespace

ReplicaGroup::ReplicaGroup(const GroupSetup& setup)
    : devices_(checked_devices(setup)),
      topology_(setup.cluster.topology()),
      own_backend_(setup.backend == nullptr ? make_cpu_backend() : nullptr),
      backend_(setup.backend == nullptr ? *own_backend_ : *setup.backend),
      weights_(backend_.allocate(setup.model.parameters().padded_size())),
      control_(make_traced(setup, "")),
      gradients_(make_traced(setup, " sums")) {
  const bool gathers = setup.trains && topology_.processes > 1;
  if (gathers) weight_groups_ = make_traced(setup, " weights");
  for (int device = 0; device < topology_.devices; ++device) {
    const auto at = static_cast<std::size_t>(device);
    replicas_.push_back(std::make_unique<Replica>(
        backend_,
        ReplicaSetup{.device = device,
                     .model = setup.model,
                     .objective = setup.objective,
                     .precision = setup.precision,
                     .weights = weights(),
                     .buffers = {},
                     .control = *control_[at],
                     .trace = track_of(setup, device, "")},
        TrainingGroups{.gradients = setup.trains ? gradients_[at].get() : nullptr,
                       .weights = gathers ? weight_groups_[at].get() : nullptr},
        setup.evaluation_model));
  }
}

void ReplicaGroup::make_steps(const TrainOptions& options, const std::vector<DeviceSpan>& states,
                              DeviceSpan ema) {
  devices_.run([&](int device) { replica(device).make_step(options, states, ema); });
}

void ReplicaGroup::spread_from_device0() {
  const DeviceSpan from = replica(0).buffers();
  for (const auto& replica : replicas_) {
    if (replica->device() != 0) backend_.copy(from, replica->buffers());
    replica->weights_changed();
  }
}

std::vector<CompileEvent> ReplicaGroup::take_compilations() {
  std::vector<CompileEvent> events;
  for (const auto& replica : replicas_)
    for (CompileEvent& event : replica->take_compilations()) events.push_back(std::move(event));
  return events;
}

// A failure aborts the groups at once: a reducer's thread may wait for ranks that will not join.
void ReplicaGroup::run(EpochFeed& feed, const std::function<void(Replica&)>& work) {
  Failure failure([&](const std::exception_ptr& error) {
    const std::string reason = reason_of(error, topology_);
    control_.front()->abort(reason);
    gradients_.front()->abort(reason);
    if (!weight_groups_.empty()) weight_groups_.front()->abort(reason);
    feed.stop();
  });
  failure.guard(
      [&] { devices_.run([&](int device) { failure.guard([&] { work(replica(device)); }); }); });
  failure.rethrow();
}

}  // namespace millrace::trainer::detail
