// An objective in StableHLO: what Objective::stablehlo() takes and returns.
//
// Threads: as builder.h's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/hlo/builder.h"

namespace millrace::trainer::hlo {

struct ScoreArguments {
  /// The model's outputs: float32, (N, ...); images (N, C, H, W).
  std::vector<Tensor> outputs;
  /// By the field's name: labels int32, or float32 values.
  std::map<std::string, Tensor> targets;
  Tensor valid;           ///< flags (N)
  Tensor divisor;         ///< float32, without dimensions: of the gradients
  bool gradients = true;  ///< whether they are asked for
};

struct ScoreResults {
  Tensor sums;  ///< float32, (num_sums), of this replica
  /// d (sum of losses / divisor) / d output, for each output that has one.
  std::vector<std::optional<Tensor>> gradients = {};
};

}  // namespace millrace::trainer::hlo
