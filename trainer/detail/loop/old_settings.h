// The library's settings that checkpoints of before components have, by the names and values of
// now.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/setting.h"

namespace millrace::trainer::detail {

/// Names of before, and those of now.
std::span<const std::pair<std::string_view, std::string_view>> renamed_settings();

/// schedule.min_lr of `saved` as schedule.to, a warm-up of 100 steps as "100steps",
/// warmup-exponential as step.
std::vector<Setting> with_new_names(std::vector<Setting> saved, std::span<const Setting> now);

}  // namespace millrace::trainer::detail
