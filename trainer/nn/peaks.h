// Peaks: what a processor reaches at most, measured by work that is limited by one thing alone: the
// limit that a plan's steps are compared with.
//
// Threads: the calling thread's OpenMP team, as a Plan's.
#pragma once

#include "trainer/nn/plan.h"
#include "trainer/nn/plan_step.h"

namespace millrace::trainer::nn {

struct Peaks {
  double flops = 0;  ///< per second, of products and convolutions in a plan's precision
  double bytes = 0;  ///< per second, read and written, of a copy larger than the caches

  /// The least seconds in which `step` can be done.
  double least_seconds(const PlanStep& step) const;
};

/// Takes about a second, and 256 MiB. Throws: Unsupported in a build without oneDNN.
Peaks measure_peaks(Precision precision);

}  // namespace millrace::trainer::nn
