// plan_table: what a training step does, layer by layer, with times and the processor's limits.
#pragma once

#include <cstdint>
#include <string>

#include "tools/output.h"
#include "trainer/plan_profile.h"

namespace millrace::tools {

/// What was profiled.
struct PlanTableHead {
  std::string model;
  std::int64_t batch_size = 1;
  std::string precision;  ///< "bf16"
  bool json = false;
};

/// A line for each step, in the order in which they run, under the name of its layer; sums by kind,
/// and which step is slowest. As JSON: one object per step, and one of totals.
void print_plan(const trainer::PlanProfile& profile, const PlanTableHead& head, Output& out);

}  // namespace millrace::tools
