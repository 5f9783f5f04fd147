#include "trainer/evaluate.h"

#include <chrono>
#include <cmath>

#include "trainer/detail/loaded_group.h"
#include "trainer/detail/replica_evaluate.h"

namespace millrace::trainer {

EvalResult evaluate(const EvalInput& input, const EvalOptions& options,
                    const std::vector<Observer*>& observers) {
  const auto start = std::chrono::steady_clock::now();
  detail::LoadedGroup group(input, options);
  const auto feed = input.feed.open(0, nullptr);
  const detail::EvaluationContext context{
      .feed = *feed, .stop = options.stop, .on_step = [&](std::int64_t batches) {
        for (Observer* observer : observers) observer->on_evaluation_step(batches);
      }};
  detail::EvaluationSums sums;
  group.replicas.run(*feed, [&](detail::Replica& replica) {
    detail::EvaluationSums own = evaluate_replica(context, replica);
    if (replica.rank() == 0) sums = std::move(own);
  });
  EvalResult result;
  result.values = input.objective.finish({.sums = std::span(sums.all).first(sums.all.size() - 1),
                                          .samples = sums.all.back(),
                                          .records = sums.all_records});
  result.samples = std::llround(sums.all.back());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace millrace::trainer
