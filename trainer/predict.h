// predict: what a checkpoint makes of samples: its outputs, one sample after the other. No labels
// are needed.
//
//   predict({.model = model, .objective = objective, .feed = feed, .devices = threads},
//           {.weights = "run/checkpoints/best"},
//           [&](const Prediction& one) { use(one.key, one.outputs.front()); });
//
// Threads: call from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/evaluate.h"

namespace millrace::trainer {

struct Prediction {
  std::string_view key;
  /// One of each of the model's outputs, as it leaves the last layer, before softmax or sigmoid:
  /// (classes), or an image's values (C, H, W).
  std::vector<std::span<const float>> outputs;
  /// The values of each of EvalOptions::carried.
  std::vector<std::span<const std::int64_t>> carried = {};
};

using PredictionSink = std::function<void(const Prediction&)>;

/// Calls `each` with every sample, in the feed's order whatever the number of devices, on rank 0's
/// replica thread, so in process 0 alone; the spans last until it returns. Several processes take
/// turns: a round of one batch a replica, in the order of the ranks. Of the objective only the
/// names of the inputs are used. Returns the number of samples, on every process. Throws: as
/// evaluate(), and what `each` throws.
std::int64_t predict(const EvalInput& input, const EvalOptions& options,
                     const PredictionSink& each);

}  // namespace millrace::trainer
