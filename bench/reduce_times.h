// What the collectives of a step take beside the alpha-beta model of `millrace plan`: the common
// part of reduce_bench and reduce_smpi.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>

#include "trainer/collectives.h"

namespace millrace::bench {

/// A collective on some values.
using OnBucket = std::function<void(std::span<float>)>;

/// `collective` on all of `values`, bucket by bucket as a step does it.
inline void over_buckets(std::span<float> values, std::size_t bucket, const OnBucket& collective) {
  for (std::size_t at = 0; at < values.size(); at += bucket)
    collective(values.subspan(at, std::min(bucket, values.size() - at)));
}

/// Seconds of a call that all ranks make at once.
inline double seconds_of(trainer::Collectives& rank, const std::function<double()>& clock,
                         const std::function<void()>& call) {
  rank.barrier();
  const double start = clock();
  call();
  return clock() - start;
}

inline void print_beside_model(const char* what, double measured, double model) {
  std::printf("%-34s %9.2f ms   model %9.2f ms   ratio %.2f\n", what, 1e3 * measured, 1e3 * model,
              measured / model);
}

}  // namespace millrace::bench
