// ProcessReport: counts and times of a process's replicas in an epoch, for process 0's event.
//
// Threads: as a value; gather_reports() one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/detail/processes.h"
#include "trainer/detail/stall.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

struct ProcessReport {
  std::int64_t samples = 0;  ///< valid ones, of all its replicas
  std::int64_t skipped = 0;
  std::int64_t refetched = 0;
  std::vector<ReplicaTimes> times = {};  ///< one per replica
  std::string busiest_stage = {};        ///< of its input
};

/// All processes' reports as one: sums, the times of all replicas, and the busiest stage of the
/// process whose replicas waited longest for their input.
ProcessReport gather_reports(Processes& processes, const ProcessReport& own);

/// The plans that all processes' replicas compiled, in the order of the processes.
std::vector<CompileEvent> gather_compilations(Processes& processes,
                                              const std::vector<CompileEvent>& own);

}  // namespace millrace::trainer::detail
