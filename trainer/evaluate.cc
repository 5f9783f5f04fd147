#include "trainer/evaluate.h"

#include <chrono>
#include <exception>
#include <string>

#include "io/base/error.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/checkpoint_replicas.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/meter.h"
#include "trainer/same_data.h"

namespace millrace::trainer {
namespace {

void check_measured(detail::Processes& processes, const std::string& weights,
                    const std::string& fault) {
  if (fault.empty()) return;
  processes.throw_alike(std::make_exception_ptr(Error(
      ErrorCode::kNotFinite, fault + ": nothing can be measured of this model", {.url = weights})));
}

EvalResult evaluate_in(detail::Processes& processes, const EvalInput& input,
                       const EvalOptions& options, const std::vector<Observer*>& observers) {
  const auto start = std::chrono::steady_clock::now();
  if (!processes.is_alone()) check_same_data(processes.cluster(), "samples", input.feed.identity());
  detail::CheckpointReplicas replicas(processes, input, options);
  input.feed.plan_epochs(1);
  input.feed.set_landing(replicas.group.backend().landing(input.objective));
  const auto feed = input.feed.open(0, nullptr);
  const detail::EvaluationSums sums = detail::evaluate_group(
      {.group = replicas.group, .processes = processes, .feed = *feed, .stop = options.stop},
      input.objective, [&](std::int64_t batches) {
        for (Observer* observer : observers) observer->on_evaluation_step(batches);
      });
  if (sums.stopped) processes.throw_stopped("the evaluation was stopped");
  EvalResult result{.values = {}, .samples = sums.samples(), .skipped = sums.skipped};
  detail::check_not_empty(processes, "the evaluation", result.samples, result.skipped);
  result.values = detail::measures_of(input.objective, sums.all, sums.all_records);
  check_measured(processes, options.weights,
                 detail::non_finite_text(sums.non_finite, result.samples, result.values));
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace

EvalResult evaluate(const EvalInput& input, const EvalOptions& options,
                    const std::vector<Observer*>& observers) {
  detail::Processes processes(input.cluster, input.devices.size());
  return processes.guard([&] { return evaluate_in(processes, input, options, observers); });
}

}  // namespace millrace::trainer
