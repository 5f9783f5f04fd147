#include "trainer/composed_backend.h"

#include "trainer/detail/step/composed_replica.h"

namespace millrace::trainer {

std::unique_ptr<BackendReplica> ComposedBackend::make_replica(const ReplicaSetup& setup) {
  return std::make_unique<detail::ComposedReplica>(*this, setup);
}

void ComposedBackend::all_gather_rounded(DeviceSpan values, std::span<const ValueRange> /*rounded*/,
                                         Collectives& group) {
  all_gather(values, group);
}

void ComposedBackend::score(const Objective& objective, const ScoreRequest& request,
                            std::span<double> sums) {
  objective.score(request, sums);
}

}  // namespace millrace::trainer
