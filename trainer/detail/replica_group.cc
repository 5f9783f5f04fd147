#include "trainer/detail/replica_group.h"

#include <string>

#include "trainer/detail/failure.h"

namespace millrace::trainer::detail {
namespace {

std::string reason_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "a replica failed";
  }
}

}  // namespace

ReplicaGroup::ReplicaGroup(const GroupSetup& setup)
    : devices_(setup.devices),
      own_backend_(setup.backend == nullptr ? make_cpu_backend() : nullptr),
      backend_(setup.backend == nullptr ? *own_backend_ : *setup.backend),
      weights_(backend_.allocate(setup.model.parameters().padded_size())),
      control_(make_thread_collectives(setup.devices.size())),
      gradients_(make_thread_collectives(setup.devices.size())) {
  for (int rank = 0; rank < setup.devices.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    replicas_.push_back(std::make_unique<Replica>(
        ReplicaSetup{.rank = rank,
                     .backend = backend_,
                     .model = setup.model,
                     .objective = setup.objective,
                     .precision = setup.precision,
                     .weights = weights(),
                     .control = *control_[at],
                     .gradient_group = setup.trains ? gradients_[at].get() : nullptr,
                     .reducer = setup.reducer}));
  }
}

// A reducer's thread may still wait for ranks that will not come.
ReplicaGroup::~ReplicaGroup() { gradients_.front()->abort("the run is over"); }

void ReplicaGroup::spread_from_rank0() {
  const DeviceSpan from = replica(0).buffers();
  for (const auto& replica : replicas_) {
    if (replica->rank() != 0) backend_.copy(from, replica->buffers());
    replica->parameters_changed();
  }
}

std::vector<CompileEvent> ReplicaGroup::take_compilations() {
  std::vector<CompileEvent> events;
  compilations_.resize(replicas_.size());
  for (int rank = 0; rank < size(); ++rank) {
    const auto& all = replica(rank).compilations();
    std::size_t& taken = compilations_[static_cast<std::size_t>(rank)];
    for (; taken < all.size(); ++taken) {
      events.push_back({.rank = rank,
                        .shape = all[taken].shape,
                        .seconds = all[taken].seconds.count(),
                        .activation_bytes = all[taken].activation_bytes});
    }
  }
  return events;
}

void ReplicaGroup::run(EpochFeed& feed, const std::function<void(Replica&)>& work) {
  Failure failure([&](const std::exception_ptr& error) {
    const std::string reason = reason_of(error);
    control_.front()->abort(reason);
    gradients_.front()->abort(reason);
    feed.stop();
  });
  devices_.run([&](int rank) { failure.guard([&] { work(replica(rank)); }); });
  failure.rethrow();
}

}  // namespace millrace::trainer::detail
