// The stall report of an epoch, from its replicas' times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/events.h"

namespace millrace::trainer::detail {

/// Above this share of waiting an epoch is input-bound.
inline constexpr double kInputBoundShare = 0.05;

/// Times of one replica in an epoch.
struct ReplicaTimes {
  StepTimes all;    ///< including the first step's
  StepTimes first;  ///< of the first step alone
};

/// `times`: one per replica, over `steps` steps.
StallReport make_stall_report(const std::vector<ReplicaTimes>& times, std::int64_t steps,
                              const std::string& busiest_stage);

}  // namespace millrace::trainer::detail
