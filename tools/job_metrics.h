// JobMetrics: what a command that works through a set has done so far, as Prometheus reads it, and
// a line that says whether it goes on.
//
//   JobMetrics metrics({.command = "reshard", .network = [&] { return read.network.state(); }});
//   metrics.expect(known_samples);
//   metrics.at(written);                                            // progress
//   serve("/metrics", [&] { return metrics.text(); });              // on another thread
//
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/base/clock.h"
#include "io/base/thread_annotations.h"
#include "io/base/topology.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::tools {

struct WatchedJob {
  std::string command = {};
  Topology topology = {};
  /// Called on the thread that asks; empty: nothing is read over the network.
  std::function<trainer::NetworkState()> network = {};
};

class JobMetrics {
 public:
  /// `clock` is borrowed.
  explicit JobMetrics(WatchedJob job, const Clock& clock = Clock::system());

  /// The samples to come; 0: unknown.
  void expect(std::uint64_t samples);
  /// So many samples are done.
  void at(std::uint64_t samples);
  /// Samples that the fault policy has skipped.
  void skipped(std::uint64_t samples);
  /// So many bytes of the input more were read.
  void read(std::uint64_t bytes);
  /// A shard is complete.
  void add_shard(std::uint64_t bytes);

  std::string text() const;
  /// One JSON object: "command", "samples", "expected", "seconds_since_progress". Progress is a
  /// sample that is done or skipped, a shard that is complete, or input that is read.
  std::string health() const;
  double seconds_since_progress() const;

 private:
  void progressed() MILLRACE_REQUIRES(mutex_) { progress_ = clock_.now(); }
  double idle_seconds() const MILLRACE_REQUIRES(mutex_);

  const WatchedJob job_;
  const Clock& clock_;
  const double wall_start_;
  mutable Mutex mutex_;
  std::uint64_t expected_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t samples_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t skipped_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t shards_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t read_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Clock::TimePoint progress_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::tools
