#include "trainer/detail/replica_evaluate.h"

#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer::detail {
namespace {

std::vector<float> gather_records(std::span<const float> records, Collectives& group) {
  std::vector<float> all;
  for (const auto& bytes : group.all_gather_bytes(std::as_bytes(records))) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

void score(const pipeline::Batch& batch, Replica& replica, EvaluationSums& own) {
  nn::Plan& plan = replica.plan_for(batch);
  plan.forward(replica.inputs_of(batch), nn::Mode::kEvaluate);
  replica.backend().score(replica.objective(),
                          {.plan = plan, .batch = batch, .records = &own.replica_records},
                          std::span(own.replica).first(own.replica.size() - 1));
  own.replica.back() += static_cast<double>(batch.num_valid);
}

}  // namespace

std::int64_t EvaluationSums::samples() const { return std::llround(all.back()); }

EvaluationSums evaluate_group(const FeedPass& pass,
                              const std::function<void(std::int64_t)>& on_step) {
  const std::size_t num_sums = pass.group.replica(0).objective().num_sums() + 1;
  std::vector<EvaluationSums> own(static_cast<std::size_t>(pass.group.size()),
                                  {.replica = std::vector<double>(num_sums)});
  const auto own_of = [&](const Replica& replica) -> EvaluationSums& {
    return own[static_cast<std::size_t>(replica.device())];
  };
  std::int64_t done = 0;
  const bool whole = run_pass(
      pass,
      [&](Replica& replica, const pipeline::Batch* batch) {
        if (batch != nullptr) score(*batch, replica, own_of(replica));
        if (replica.rank() == 0 && on_step) on_step(++done);
      },
      [&](Replica& replica) {
        EvaluationSums& sums = own_of(replica);
        sums.all = sums.replica;
        replica.control().all_reduce(std::span<double>(sums.all));
        sums.all_records = gather_records(sums.replica_records, replica.control());
      });
  own.front().stopped = !whole;
  if (whole) own.front().skipped = pass.processes.sum(pass.feed.skipped_samples());
  return std::move(own.front());
}

void check_not_empty(Processes& processes, const std::string& what, std::int64_t samples,
                     std::int64_t skipped) {
  if (samples > 0) return;
  const std::string why = skipped > 0 ? ": " + std::to_string(skipped) + " were skipped" : "";
  processes.throw_alike(
      std::make_exception_ptr(Error(ErrorCode::kExhausted, what + " had no samples" + why)));
}

}  // namespace millrace::trainer::detail
