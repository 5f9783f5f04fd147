#include "tools/verify/class_mix.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxCounted = 65'536;
// Entries of histograms kept over all shards; further shards count only for the set.
constexpr std::size_t kMaxEntries = std::size_t{4} * 1024 * 1024;
// Random variation stays well below these.
constexpr double kLongRun = 4.0;
constexpr double kFarOff = 3.0;
constexpr double kLeastDistance = 0.1;

using ClassCounts = std::map<std::int64_t, std::uint64_t>;
/// One value per class of the set.
using Classes = Eigen::ArrayXd;

/// How many of each of the set's classes `part` has.
Classes counts_in(const ClassCounts& part, const ClassCounts& set) {
  Classes counts = Classes::Zero(static_cast<Eigen::Index>(set.size()));
  Eigen::Index at = 0;
  for (const auto& [label, count] : set) {
    const auto found = part.find(label);
    if (found != part.end()) counts[at] = static_cast<double>(found->second);
    ++at;
  }
  return counts;
}

// A sample of a class with share p has p / (1 - p) of its class before it and as many after it.
double expected_run(const Classes& shares) { return (shares * (1 + shares) / (1 - shares)).sum(); }

// A share p of n random samples deviates by sqrt(2 p (1 - p) / (pi n)) on average.
double expected_distance(const Classes& shares, double samples) {
  return (2 * shares * (1 - shares) / (std::numbers::pi * samples)).sqrt().sum() / 2;
}

}  // namespace

ShardClasses::ShardClasses(ClassCounts histogram, double squared_runs, bool overflowed)
    : histogram_(std::move(histogram)), squared_runs_(squared_runs), overflowed_(overflowed) {
  for (const auto& [label, count] : histogram_) samples_ += count;
}

void ShardClasses::add(std::int64_t label) {
  if (overflowed_) return;
  if (run_ > 0 && label != last_) finish();
  last_ = label;
  ++run_;
  ++samples_;
  ++histogram_[label];
  overflowed_ = histogram_.size() > kMaxCounted;
}

void ShardClasses::finish() {
  squared_runs_ += static_cast<double>(run_) * static_cast<double>(run_);
  run_ = 0;
}

void ClassMix::add(const ShardClasses& shard) {
  overflowed_ = overflowed_ || shard.overflowed();
  if (overflowed_) return;
  for (const auto& [label, count] : shard.histogram()) histogram_[label] += count;
  overflowed_ = histogram_.size() > kMaxCounted;
  samples_ += shard.samples();
  squared_runs_ += shard.squared_runs();
  if ((shards_.size() + 1) * histogram_.size() <= kMaxEntries) shards_.push_back(shard.histogram());
}

std::optional<MixFindings> ClassMix::findings() const {
  if (overflowed_ || histogram_.size() < 2) return {};
  const auto all = static_cast<double>(samples_);
  const Classes shares = counts_in(histogram_, histogram_) / all;
  MixFindings found{.classes = histogram_.size(),
                    .run_length = squared_runs_ / all,
                    .expected_run_length = expected_run(shares)};
  double kept = 0;
  for (const auto& shard : shards_) {
    const Classes here = counts_in(shard, histogram_);
    const double samples = here.sum();
    if (samples == 0) continue;
    found.distance += samples * (here / samples - shares).abs().sum() / 2;
    found.expected_distance += samples * expected_distance(shares, samples);
    kept += samples;
  }
  found.distance /= kept;
  found.expected_distance /= kept;
  found.sorted = found.run_length > kLongRun * found.expected_run_length;
  found.skewed = found.distance > kFarOff * found.expected_distance + kLeastDistance;
  if (!found.sorted && !found.skewed) return found;
  // A buffer mixes what it spans: it should span a run per class, rare classes counting less.
  found.buffer = std::min(
      samples_, static_cast<std::uint64_t>(std::ceil(found.run_length / shares.square().sum())));
  return found;
}

}  // namespace millrace::tools
