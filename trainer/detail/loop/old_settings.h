// Settings that checkpoints of before components have, by the names and values of now.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <vector>

#include "trainer/setting.h"

namespace millrace::trainer::detail {

/// --momentum of `saved` as --optimizer.momentum, schedule.min_lr as schedule.to, a warm-up of 100
/// steps as "100steps", warmup-exponential as step. Unless `now` has them by their old names, too:
/// other programs' options stay as they are.
std::vector<Setting> with_new_names(std::vector<Setting> saved, std::span<const Setting> now);

}  // namespace millrace::trainer::detail
