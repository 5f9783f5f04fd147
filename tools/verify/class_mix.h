// ClassMix: how well the classes of a set of shards are mixed, and the shuffle buffer needed.
//
// Two figures, each with its expected value for shuffled shards: the length of the run of equal
// classes that a sample is in, and the distance between a shard's class histogram and the set's
// (half the sum of the differences of shares: 0 equal, 1 disjoint).
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace millrace::tools {

/// One shard's classes, in the order of its samples.
class ShardClasses {
 public:
  ShardClasses() = default;
  /// As another process found them.
  ShardClasses(std::map<std::int64_t, std::uint64_t> histogram, double squared_runs,
               bool overflowed);

  void add(std::int64_t label);
  /// Closes the last run. Called once, last.
  void finish();

  const std::map<std::int64_t, std::uint64_t>& histogram() const { return histogram_; }
  std::uint64_t samples() const { return samples_; }
  /// The sum of the squared lengths of all runs.
  double squared_runs() const { return squared_runs_; }
  /// Whether there are too many classes to be plausible: the labels are something else.
  bool overflowed() const { return overflowed_; }

 private:
  std::map<std::int64_t, std::uint64_t> histogram_;
  std::uint64_t samples_ = 0;
  std::int64_t last_ = 0;
  std::uint64_t run_ = 0;
  double squared_runs_ = 0;
  bool overflowed_ = false;
};

struct MixFindings {
  std::size_t classes = 0;
  double run_length = 0;  ///< mean over samples
  double expected_run_length = 0;
  double distance = 0;  ///< mean over shards, weighted by their samples
  double expected_distance = 0;
  /// Classes come in runs.
  bool sorted = false;
  /// Shards hold different shares of the classes.
  bool skewed = false;
  /// The shuffle buffer needed, in samples; 0 if none is.
  std::uint64_t buffer = 0;
};

class ClassMix {
 public:
  void add(const ShardClasses& shard);
  /// Nullopt if there are no labels, only one class, or labels that are not classes.
  std::optional<MixFindings> findings() const;

 private:
  std::map<std::int64_t, std::uint64_t> histogram_;
  std::vector<std::map<std::int64_t, std::uint64_t>> shards_;
  std::uint64_t samples_ = 0;
  double squared_runs_ = 0;
  bool overflowed_ = false;
};

}  // namespace millrace::tools
