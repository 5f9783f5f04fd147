// MetricsReport: what a run's steps cost, in the manner that users of PyTorch/XLA know: counters,
// accumulators with percentiles, compilations by shape, and warnings.
//
//   MetricsReport report;
//   fit(input, options, {&report});
//   std::cerr << report.text();
//
// It tells of rank 0's steps; compilations of all replicas. Buffers: one number a step and metric,
// the newest 65,536. Threads: as an Observer; text() when the run is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/observer.h"

namespace millrace::trainer {

class MetricsReport final : public Observer {
 public:
  void on_epoch_start(std::int64_t epoch) override;
  void on_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

  std::string text() const;
  /// One line a thing that costs speed: shapes that change, batches too small, input-bound steps.
  /// An epoch's first step, which waits for the input to start and compiles, does not count.
  std::vector<std::string> warnings() const;

 private:
  /// A number a step.
  struct Series {
    void add(double value);
    std::vector<double> newest;
    std::size_t next = 0;
    std::uint64_t count = 0;
    double total = 0;
  };
  struct Shape {
    std::int64_t count = 0;
    double seconds = 0;
    std::size_t activation_bytes = 0;
  };

  /// Steps that warnings go by.
  struct Steady {
    std::int64_t steps = 0;
    double wait = 0;
    double total = 0;
  };

  std::map<std::string, Series> seconds_;
  std::map<std::string, Shape> shapes_;
  Steady steady_;
  bool epoch_begins_ = false;
  std::uint64_t steps_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t bytes_ = 0;
  std::int64_t world_ = 1;
};

/// The q-th percentile of `sorted`, 0 <= q <= 100, interpolated between neighbours.
double percentile(const std::vector<double>& sorted, double q);

}  // namespace millrace::trainer
