#include "trainer/detail/stall.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::trainer::detail {

StallReport make_stall_report(const std::vector<StepTimes>& times, std::int64_t steps,
                              const std::string& busiest_stage) {
  StallReport report;
  report.steps = steps;
  const double per_step =
      1.0 / static_cast<double>(std::max<std::int64_t>(1, steps) *
                                static_cast<std::int64_t>(std::max<std::size_t>(1, times.size())));
  for (const StepTimes& one : times) {
    report.mean_step.wait += one.wait * per_step;
    report.mean_step.forward += one.forward * per_step;
    report.mean_step.backward += one.backward * per_step;
    report.mean_step.reduce += one.reduce * per_step;
    report.mean_step.update += one.update * per_step;
  }
  const double total = report.mean_step.total();
  report.wait_share = total > 0.0 ? report.mean_step.wait / total : 0.0;
  report.free_input_step = total - report.mean_step.wait;
  report.slowest_stage = busiest_stage;
  const double percent = 100.0 * report.wait_share;
  if (report.wait_share < kInputBoundShare) {
    report.verdict = fmt::format("compute-bound (waits {:.1f} %)", percent);
  } else {
    report.verdict = fmt::format("input-bound{} (waits {:.1f} %)",
                                 busiest_stage.empty() ? "" : " by " + busiest_stage, percent);
  }
  return report;
}

}  // namespace millrace::trainer::detail
