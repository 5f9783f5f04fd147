// TrainOptions as settings: each of its fields with its scope, for programs that have no list of
// their own.
#pragma once

#include <vector>

#include "trainer/setting.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// All that is computed from. Folders, start weights, limits of time and the log are process 0's
/// alone and are left out. A field that is added to one of the structs does not compile before it
/// has its place here.
std::vector<Setting> describe(const TrainOptions& options);

}  // namespace millrace::trainer::detail
