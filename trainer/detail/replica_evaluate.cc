#include "trainer/detail/replica_evaluate.h"

#include <cstring>
#include <span>

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

}  // namespace

EvaluationSums evaluate_replica(const EvaluationContext& context, Replica& replica) {
  std::vector<double> sums(replica.objective().num_sums() + 1);
  const std::span<double> counted = std::span(sums).first(sums.size() - 1);
  std::vector<float> records;
  pipeline::Batch batch;
  for (std::int64_t done = 1; context.max_batches == 0 || done <= context.max_batches; ++done) {
    if (!context.feed.next(replica.rank(), batch)) break;
    if (context.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "the evaluation was stopped");
    }
    nn::Plan& plan = replica.plan_for(batch);
    plan.forward(replica.inputs_of(batch), nn::Mode::kEvaluate);
    replica.backend().score(replica.objective(),
                            {.plan = plan, .batch = batch, .records = &records}, counted);
    sums.back() += static_cast<double>(batch.num_valid);
    if (replica.rank() == 0 && context.on_step) context.on_step(done);
  }
  EvaluationSums result{sums, sums, {}, records};
  replica.control().all_reduce(std::span<double>(result.all));
  result.all_records = gather_records(records, replica.control());
  return result;
}

void check_not_empty(const std::string& what, std::int64_t samples, std::int64_t skipped) {
  if (samples > 0) return;
  const std::string why = skipped > 0 ? ": " + std::to_string(skipped) + " were skipped" : "";
  throw Error(ErrorCode::kExhausted, what + " had no samples" + why);
}

}  // namespace millrace::trainer::detail
