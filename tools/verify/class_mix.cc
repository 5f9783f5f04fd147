#include "tools/verify/class_mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxClasses = 65'536;
// Histogram entries kept over all shards; further shards count for the set alone.
constexpr std::size_t kMaxEntries = std::size_t{4} * 1024 * 1024;
// What chance does stays well below these.
constexpr double kLongRun = 4.0;
constexpr double kFarOff = 3.0;
constexpr double kLeastDistance = 0.1;

}  // namespace

void ShardClasses::add(std::int64_t label) {
  if (overflowed_) return;
  if (run_ > 0 && label != last_) finish();
  last_ = label;
  ++run_;
  ++samples_;
  ++histogram_[label];
  overflowed_ = histogram_.size() > kMaxClasses;
}

void ShardClasses::finish() {
  squared_runs_ += static_cast<double>(run_) * static_cast<double>(run_);
  run_ = 0;
}

void ClassMix::add(const ShardClasses& shard) {
  overflowed_ = overflowed_ || shard.overflowed();
  if (overflowed_) return;
  for (const auto& [label, count] : shard.histogram()) histogram_[label] += count;
  overflowed_ = histogram_.size() > kMaxClasses;
  samples_ += shard.samples();
  squared_runs_ += shard.squared_runs();
  if ((shards_.size() + 1) * histogram_.size() <= kMaxEntries) shards_.push_back(shard.histogram());
}

double ClassMix::share(std::int64_t label) const {
  return static_cast<double>(histogram_.at(label)) / static_cast<double>(samples_);
}

// A sample of a class with share p has p / (1 - p) of its kind before it and as many behind.
double ClassMix::expected_run() const {
  double sum = 0;
  for (const auto& [label, count] : histogram_) {
    const double p = share(label);
    sum += p * (1 + p) / (1 - p);
  }
  return sum;
}

double ClassMix::distance(const std::map<std::int64_t, std::uint64_t>& histogram,
                          double samples) const {
  double sum = 0;
  for (const auto& [label, count] : histogram_) {
    const auto found = histogram.find(label);
    const double here = found == histogram.end() ? 0 : static_cast<double>(found->second);
    sum += std::abs(here / samples - share(label));
  }
  return sum / 2;
}

// A share p of n samples drawn by chance is off by sqrt(2 p (1 - p) / (pi n)) in the mean.
double ClassMix::expected_distance(double samples) const {
  double sum = 0;
  for (const auto& [label, count] : histogram_) {
    const double p = share(label);
    sum += std::sqrt(2 * p * (1 - p) / (std::numbers::pi * samples));
  }
  return sum / 2;
}

std::optional<MixFindings> ClassMix::findings() const {
  if (overflowed_ || histogram_.size() < 2) return {};
  MixFindings found{.classes = histogram_.size(),
                    .run_length = squared_runs_ / static_cast<double>(samples_),
                    .expected_run_length = expected_run()};
  double kept = 0;
  for (const auto& shard : shards_) {
    double samples = 0;
    for (const auto& [label, count] : shard) samples += static_cast<double>(count);
    if (samples == 0) continue;
    found.distance += samples * distance(shard, samples);
    found.expected_distance += samples * expected_distance(samples);
    kept += samples;
  }
  found.distance /= kept;
  found.expected_distance /= kept;
  found.sorted = found.run_length > kLongRun * found.expected_run_length;
  found.skewed = found.distance > kFarOff * found.expected_distance + kLeastDistance;
  if (!found.sorted && !found.skewed) return found;
  // A buffer mixes what it spans: as many runs as there are classes, rare ones counted less.
  double squares = 0;
  for (const auto& [label, count] : histogram_) squares += share(label) * share(label);
  found.buffer =
      std::min(samples_, static_cast<std::uint64_t>(std::ceil(found.run_length / squares)));
  return found;
}

}  // namespace millrace::tools
