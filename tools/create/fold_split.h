// split_folds: divides samples into K folds for cross-validation, without splitting a group.
//
// Groups (patients, series) are assigned whole, the largest first, each to the fold with the fewest
// samples so far; groups of equal size in an order drawn from the seed.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/create/sample_source.h"

namespace millrace::tools {

struct FoldOptions {
  std::uint32_t folds = 5;
  std::uint64_t seed = 0;
};

/// The fold of every sample. Throws: InvalidArgument if there are fewer groups than folds.
std::vector<std::uint32_t> split_folds(const SampleSource& source, const FoldOptions& options);

}  // namespace millrace::tools
