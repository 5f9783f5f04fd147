// The options that a checkpoint has saved, by the names and values that they have now.
//
//   options.renew_settings = renewed_settings;   // trainer/train_options.h
//
// Threads: pure functions.
#pragma once

#include <span>
#include <vector>

#include "trainer/setting.h"

namespace millrace::tools {

/// --momentum of `saved` as --optimizer.momentum, --passes as --repeat, --warmup-steps 100 as
/// --schedule.warmup 100steps, --drop-last as --uneven drop: what tools/option_aliases.h says of
/// options, of those that the run of `now` has. Transforms and groups of parameters get the fields
/// that they had not, with their defaults.
std::vector<trainer::Setting> renewed_settings(std::vector<trainer::Setting> saved,
                                               std::span<const trainer::Setting> now);

}  // namespace millrace::tools
