#include "trainer/detail/stall.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::trainer::detail {
namespace {

std::string verdict_of(const StallReport& report) {
  if (report.steps == 0) return "too short for a verdict";
  const double percent = 100.0 * report.wait_share;
  if (report.wait_share < kInputBoundShare) {
    return fmt::format("compute-bound (waits {:.1f} %)", percent);
  }
  return fmt::format("input-bound{} (waits {:.1f} %)",
                     report.slowest_stage.empty() ? "" : " by " + report.slowest_stage, percent);
}

}  // namespace

StallReport make_stall_report(const std::vector<ReplicaTimes>& times, std::int64_t steps,
                              const std::string& busiest_stage) {
  StallReport report;
  report.steps = std::max<std::int64_t>(0, steps - 1);
  const double replicas = static_cast<double>(std::max<std::size_t>(1, times.size()));
  const double per_step = report.steps == 0 ? 0.0 : 1.0 / static_cast<double>(report.steps);
  for (const ReplicaTimes& one : times) {
    report.first_step.add(one.first, 1.0 / replicas);
    report.mean_step.add(one.all, per_step / replicas);
    report.mean_step.add(one.first, -per_step / replicas);
  }
  const double total = report.mean_step.total();
  report.wait_share = total > 0.0 ? report.mean_step.wait / total : 0.0;
  report.free_input_step = total - report.mean_step.wait;
  report.slowest_stage = busiest_stage;
  report.verdict = verdict_of(report);
  return report;
}

}  // namespace millrace::trainer::detail
