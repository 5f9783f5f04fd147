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

  /// Sets `input`'s network and adding as they show themselves in votes, and in an all-gather and
  /// a reduce-scatter of half the values; each process is taken for a machine of its own.
  void measure(std::span<float> values, trainer::ReduceInput& input) const {
    std::vector<double> votes(6);
    const double vote = of(50, [&] { rank_.all_reduce(std::span<double>(votes)); });
    const std::span<float> half = values.first(values.size() / 2);
    const double gather = of(3, [&] { rank_.all_gather(half); });
    const double scatter = of(3, [&] { rank_.reduce_scatter(half); });
    const double received = static_cast<double>(half.size()) * (1.0 - 1.0 / rank_.world());
    input.network = {.latency = vote / std::log2(rank_.world()),
                     .overhead = 0.0,
                     .bandwidth = 4.0 * received / std::max(1e-9, gather - vote)};
    input.add = std::max(0.0, scatter - gather) / received;
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
