// What the collectives of a step take beside the alpha-beta model of `millrace plan`: the common
// part of reduce_bench and reduce_smpi.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

#include "bench/medians.h"
#include "trainer/collectives.h"
#include "trainer/reduce_cost.h"

namespace millrace::bench {

/// Seconds of calls that all ranks make at once.
class ReduceTimes {
 public:
  using Clock = std::function<double()>;

  ReduceTimes(trainer::Collectives& rank, Clock clock, int rounds)
      : rank_(rank), clock_(std::move(clock)), rounds_(rounds) {}

  /// Median seconds of a call.
  double of(int calls, const std::function<void()>& call) const {
    std::vector<double> rounds;
    for (int round = 0; round < rounds_; ++round) {
      rank_.barrier();
      const double start = clock_();
      for (int i = 0; i < calls; ++i) call();
      rounds.push_back((clock_() - start) / calls);
    }
    return median(rounds);
  }

  /// The link as it shows itself in votes and in a reduce-scatter of half the values, each process
  /// taken for a machine of its own.
  trainer::Network measure_link(std::span<float> values) const {
    std::vector<double> votes(6);
    const double vote = of(50, [&] { rank_.all_reduce(std::span<double>(votes)); });
    const std::span<float> half = values.first(values.size() / 2);
    const double time = of(3, [&] { rank_.reduce_scatter(half); });
    const double messages = std::log2(rank_.world());
    const double bytes = 4.0 * static_cast<double>(half.size()) * (1.0 - 1.0 / rank_.world());
    return {.latency = vote / messages, .bandwidth = bytes / std::max(1e-9, time - vote)};
  }

 private:
  trainer::Collectives& rank_;
  Clock clock_;
  int rounds_;
};

inline void print_beside_model(const char* what, double measured, double model) {
  std::printf("%-34s %9.2f ms   model %9.2f ms   ratio %.2f\n", what, 1e3 * measured, 1e3 * model,
              measured / model);
}

}  // namespace millrace::bench
