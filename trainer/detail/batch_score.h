// batch_score: the loss and the measures of one batch of a replica, none of which may come from
// values that are not finite: a NaN is larger than nothing, so that it would rank as a hit.
//
// Threads: the replica's device's own thread.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/detail/replica.h"
#include "trainer/objective.h"

namespace millrace::trainer::detail {

/// Adds the sums of the last batch that `request.plan` has computed to `sums`. If any valid
/// sample has an output that is not finite, the loss added is not a number. Returns how many have.
std::int64_t score_batch(Replica& replica, const ScoreRequest& request, std::span<double> sums);

}  // namespace millrace::trainer::detail
