// MetricsReport: how long a run's steps took, in the format of PyTorch/XLA's metrics report:
// counters, accumulators with percentiles, compilations by shape, and warnings.
//
//   MetricsReport report;
//   fit(input, options, {&report});
//   std::cerr << report.text();
//
// Its times are of rank 0's steps; compilations, samples and warnings are of all replicas. Buffers:
// one number per step and metric, the newest 65,536. Threads: as Observer; text() between its
// calls.
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
  void on_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

  std::string text() const;
  /// A line for each cause of slowness found: changing shapes, batches too small, input-bound
  /// steps. An epoch's first step, which waits for the input to start and compiles, does not count.
  std::vector<std::string> warnings() const;

 private:
  /// One number per step.
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

  /// The steps that warnings are based on: all but each epoch's first, over all replicas, as the
  /// epochs' verdicts are.
  struct Steady {
    double steps = 0;
    double wait = 0;   ///< seconds
    double total = 0;  ///< seconds
  };

  std::map<std::string, Series> seconds_;
  std::map<std::string, Shape> shapes_;
  Steady steady_;
  std::uint64_t steps_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t bytes_ = 0;
  int world_ = 1;
};

/// The q-th percentile of `sorted`, 0 <= q <= 100, interpolated between neighbours.
double percentile(const std::vector<double>& sorted, double q);

}  // namespace millrace::trainer
