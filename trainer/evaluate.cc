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
  input.feed.plan_epochs(1);
  const auto feed = input.feed.open(0, nullptr);
  const detail::EvaluationContext context{
      .feed = *feed, .stop = options.stop, .on_step = [&](std::int64_t batches) {
        for (Observer* observer : observers) observer->on_evaluation_step(batches);
      }};
  const std::stop_callback on_stop(options.stop, [&] { feed->stop(); });
  detail::EvaluationSums sums;
  group.replicas.run(*feed, [&](detail::Replica& replica) {
    detail::EvaluationSums own = evaluate_replica(context, replica);
    if (replica.rank() == 0) sums = std::move(own);
  });
  EvalResult result;
  result.skipped = feed->skipped_samples();
  result.samples = std::llround(sums.all.back());
  detail::check_not_empty("the evaluation", result.samples, result.skipped);
  result.values = input.objective.finish({.sums = std::span(sums.all).first(sums.all.size() - 1),
                                          .samples = sums.all.back(),
                                          .records = sums.all_records});
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace millrace::trainer
