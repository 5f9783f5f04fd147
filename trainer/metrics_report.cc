#include "trainer/metrics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "trainer/detail/loop/epoch_report.h"

namespace millrace::trainer {
namespace {

constexpr std::size_t kNewest = 65'536;
constexpr std::array<int, 9> kPercentiles{1, 5, 10, 20, 50, 80, 90, 95, 99};

/// Below this many seconds a step is mostly overhead.
constexpr double kSmallStepSeconds = 2e-3;

std::string time_text(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.3f}s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f}ms", 1e3 * seconds);
  return fmt::format("{:.3f}us", 1e6 * seconds);
}

std::string percentiles_text(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::string text;
  for (const int q : kPercentiles) {
    text += fmt::format("{}{}%={}", text.empty() ? "" : "; ", q, time_text(percentile(values, q)));
  }
  return text;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0.0;
  const double place = q / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

void MetricsReport::Series::add(double value) {
  if (newest.size() < kNewest) {
    newest.push_back(value);
  } else {
    newest[next] = value;
    next = (next + 1) % kNewest;
  }
  ++count;
  total += value;
}

void MetricsReport::on_step(const StepEvent& event) {
  const StepTimes& times = event.times;
  seconds_["StepTime"].add(times.total());
  for (const StepTimes::Part& part : StepTimes::parts())
    if (times.has(part)) seconds_[std::string(part.metric)].add(times.*part.value);
  ++steps_;
  samples_ += static_cast<std::uint64_t>(event.global_samples);
  bytes_ += static_cast<std::uint64_t>(event.bytes);
  world_ = event.world;
}

void MetricsReport::on_epoch_end(const EpochEvent& event) {
  for (const CompileEvent& one : event.compilations) {
    Shape& shape = shapes_[one.shape];
    ++shape.count;
    shape.seconds += one.seconds;
    shape.activation_bytes = std::max(shape.activation_bytes, one.activation_bytes);
  }
  const auto steps = static_cast<double>(event.stall.steps);
  steady_.steps += steps;
  steady_.wait += steps * event.stall.mean_step.wait;
  steady_.total += steps * event.stall.mean_step.total();
}

std::string MetricsReport::text() const {
  std::string text;
  if (world_ > 1)
    text =
        fmt::format("Times and bytes are of rank 0 of {}, samples and warnings of all.\n", world_);
  for (const auto& [name, series] : seconds_) {
    text +=
        fmt::format("Metric: {}\n  TotalSamples: {}\n  Accumulator: {}\n  Percentiles: {}\n", name,
                    series.count, time_text(series.total), percentiles_text(series.newest));
  }
  for (const auto& [shape, one] : shapes_) {
    text += fmt::format(
        "Compilation: {}\n  Count: {}\n  Accumulator: {}\n  Activations: {:.1f} MiB\n", shape,
        one.count, time_text(one.seconds), static_cast<double>(one.activation_bytes) / (1 << 20));
  }
  text += fmt::format("Counter: Steps\n  Value: {}\n", steps_);
  text += fmt::format("Counter: Samples\n  Value: {}\n", samples_);
  text += fmt::format("Counter: TransferToDeviceBytes\n  Value: {}\n", bytes_);
  for (const std::string& warning : warnings()) text += "Warning: " + warning + "\n";
  return text;
}

std::vector<std::string> MetricsReport::warnings() const {
  std::vector<std::string> found;
  std::int64_t compiled = 0;
  for (const auto& [shape, one] : shapes_) compiled += one.count;
  if (shapes_.size() > 2) {
    found.push_back(
        fmt::format("compiled {} times in {} steps: batch shape changes", compiled, steps_));
  }
  if (steady_.steps == 0) return found;
  const double step = steady_.total / steady_.steps;
  if (step < kSmallStepSeconds) {
    found.push_back(fmt::format("a step takes {}, most of it overhead: batches are too small",
                                time_text(step)));
  }
  const double share = steady_.total > 0.0 ? steady_.wait / steady_.total : 0.0;
  if (share >= detail::kInputBoundShare) {
    found.push_back(fmt::format("input-bound: {:.1f} % of the time was spent waiting for batches",
                                100.0 * share));
  }
  return found;
}

}  // namespace millrace::trainer
