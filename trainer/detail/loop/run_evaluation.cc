#include "trainer/detail/loop/run_evaluation.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/meter.h"

namespace millrace::trainer::detail {
namespace {

EvaluationSums sums_of(const RunParts& run, EpochFeed& feed, std::int64_t max_batches) {
  const EmaInPlace ema(run.weights);
  return evaluate_group({.group = run.group,
                         .processes = run.processes,
                         .feed = feed,
                         .stop = run.stop.token(),
                         .max_batches = max_batches},
                        run.input.objective, [&run](std::int64_t batches) {
                          run.output.tell(&Observer::on_evaluation_step, batches);
                        });
}

}  // namespace

bool RunEvaluation::measure(EpochEvent& event, std::int64_t max_batches) {
  const Objective& objective = run_.input.objective;
  run_.output.tell(&Observer::on_evaluation_start, event.epoch);
  const auto start = std::chrono::steady_clock::now();
  const auto feed = run_.input.validation->open(0, nullptr);
  const EvaluationSums sums = sums_of(run_, *feed, max_batches);
  if (sums.stopped) {
    run_.stop.agree();
    return false;
  }
  event.val_seconds = seconds_since(start);
  event.val_skipped_samples = sums.skipped;
  event.val_samples = sums.samples();
  check_not_empty(run_.processes, "the evaluation", event.val_samples, event.val_skipped_samples);
  event.val = measures_of(objective, sums.all, sums.all_records);
  event.val_non_finite = sums.non_finite;
  event.replica_val = measures_of(objective, sums.replica, sums.replica_records);
  for (const std::vector<double>& rank : sums.by_rank)
    event.val_by_rank.push_back(
        {.samples = std::llround(rank.back()), .values = measures_of(objective, rank)});
  return true;
}

void RunEvaluation::check_finite(EpochEvent& event) {
  const std::string fault = non_finite_text(event.val_non_finite, event.val_samples, event.val);
  if (fault.empty()) return;
  const std::string text = fmt::format(
      "the evaluation {}: {}",
      event.epoch == 0 ? "before training" : fmt::format("of epoch {}", event.epoch), fault);
  if (run_.options.on_non_finite == OnNonFinite::kFail)
    run_.processes.throw_alike(std::make_exception_ptr(
        Error(ErrorCode::kNotFinite, text + ": lower the learning rate or check the data",
              {.stage = "evaluation"})));
  run_.options.log.warn(text + "; it has no measures");
  event.val_by_rank.clear();
  for (NamedValues* values : {&event.val, &event.replica_val})
    for (auto& [name, value] : *values) value = std::nan("");
}

void RunEvaluation::check_sanity() {
  if (run_.input.validation == nullptr || run_.options.sanity_val_steps <= 0) return;
  EpochEvent event;
  event.epoch = 0;
  if (!measure(event, run_.options.sanity_val_steps)) return;
  check_finite(event);
  run_.output.tell(&Observer::on_evaluation_end, event);
  run_.options.log.info(
      fmt::format("Sanity check: {} samples evaluated before training", event.val_samples));
}

}  // namespace millrace::trainer::detail
