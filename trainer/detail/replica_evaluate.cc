#include "trainer/detail/replica_evaluate.h"

#include <span>

#include "io/base/error.h"

namespace millrace::trainer::detail {

EvaluationSums evaluate_replica(const EvaluationContext& context, Replica& replica) {
  std::vector<double> sums(replica.objective().measures().size() + 1);
  const std::span<double> measures = std::span(sums).first(sums.size() - 1);
  pipeline::Batch batch;
  for (std::int64_t done = 1; context.max_batches == 0 || done <= context.max_batches; ++done) {
    if (!context.feed.next(replica.rank(), batch)) break;
    if (context.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "the evaluation was stopped");
    }
    nn::Plan& plan = replica.plan_for(batch);
    plan.forward(replica.inputs_of(batch), nn::Mode::kEvaluate);
    replica.objective().score({.plan = plan, .batch = batch}, measures);
    sums.back() += static_cast<double>(batch.num_valid);
    if (replica.rank() == 0 && context.on_step) context.on_step(done);
  }
  EvaluationSums result{sums, sums};
  replica.control().all_reduce(std::span<double>(result.all));
  return result;
}

}  // namespace millrace::trainer::detail
