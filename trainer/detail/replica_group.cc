#include "trainer/detail/replica_group.h"

#include <string>

#include "trainer/detail/failure.h"
#include "trainer/detail/processes.h"

namespace millrace::trainer::detail {

ReplicaGroup::ReplicaGroup(const GroupSetup& setup)
    : devices_(setup.devices),
      topology_(setup.cluster.topology()),
      own_backend_(setup.backend == nullptr ? make_cpu_backend() : nullptr),
      backend_(setup.backend == nullptr ? *own_backend_ : *setup.backend),
      weights_(backend_.allocate(setup.model.parameters().padded_size())),
      control_(setup.cluster.make_group()),
      gradients_(setup.cluster.make_group()) {
  const bool gathers = setup.trains && topology_.processes > 1;
  if (gathers) weight_groups_ = setup.cluster.make_group();
  for (int device = 0; device < topology_.devices; ++device) {
    const auto at = static_cast<std::size_t>(device);
    replicas_.push_back(std::make_unique<Replica>(
        ReplicaSetup{.device = device,
                     .backend = backend_,
                     .model = setup.model,
                     .objective = setup.objective,
                     .precision = setup.precision,
                     .weights = weights(),
                     .control = *control_[at],
                     .gradient_group = setup.trains ? gradients_[at].get() : nullptr,
                     .weight_group = gathers ? weight_groups_[at].get() : nullptr,
                     .reducer = setup.reducer}));
  }
}

void ReplicaGroup::spread_from_device0() {
  const DeviceSpan from = replica(0).buffers();
  for (const auto& replica : replicas_) {
    if (replica->device() != 0) backend_.copy(from, replica->buffers());
    replica->parameters_changed();
  }
}

std::vector<CompileEvent> ReplicaGroup::take_compilations() {
  std::vector<CompileEvent> events;
  compilations_.resize(replicas_.size());
  for (int device = 0; device < size(); ++device) {
    const auto& all = replica(device).compilations();
    std::size_t& taken = compilations_[static_cast<std::size_t>(device)];
    for (; taken < all.size(); ++taken) {
      events.push_back({.rank = replica(device).rank(),
                        .shape = all[taken].shape,
                        .seconds = all[taken].seconds.count(),
                        .activation_bytes = all[taken].activation_bytes});
    }
  }
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
