// What an epoch's event is made of: the stall report of its replicas' times, and the reports that
// the processes of a run gather.
//
// Threads: as values; gather_...() one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/detail/collectives/processes.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

/// Above this share of waiting an epoch is input-bound.
inline constexpr double kInputBoundShare = 0.05;
/// Above this share of sums that nothing hides it is reduction-bound, if it waits less for its
/// input.
inline constexpr double kReductionBoundShare = 0.25;
/// Likewise, of copies to the devices.
inline constexpr double kTransferBoundShare = 0.1;

/// Times of one replica in an epoch.
struct ReplicaTimes {
  StepTimes all;    ///< including the first step's
  StepTimes first;  ///< of the first step alone
};

/// `times`: one per replica, over `steps` steps.
StallReport make_stall_report(const std::vector<ReplicaTimes>& times, std::int64_t steps,
                              const std::string& busiest_stage);

struct ProcessReport {
  std::int64_t samples = 0;  ///< valid ones, of all its replicas
  std::int64_t skipped = 0;
  std::int64_t refetched = 0;
  std::vector<ReplicaTimes> times = {};  ///< one per replica
  std::string busiest_stage = {};        ///< of its input
  InputReport input = {};
};

/// Each replica's mean step: without the first one, which is reported apart.
std::vector<StepTimes> mean_steps(const std::vector<ReplicaTimes>& times, std::int64_t steps);

/// All processes' reports as one: sums, the times of all replicas, and the busiest stage of the
/// process whose replicas waited longest for their input.
ProcessReport gather_reports(Processes& processes, const ProcessReport& own);

/// The plans that all processes' replicas compiled, in the order of the processes.
std::vector<CompileEvent> gather_compilations(Processes& processes,
                                              const std::vector<CompileEvent>& own);

}  // namespace millrace::trainer::detail
