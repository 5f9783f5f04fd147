// predict: a model's outputs for samples, one after the other. No labels are needed.
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
  /// Each of the model's outputs, before softmax or sigmoid: (classes), or an image's values (C, H,
  /// W).
  std::vector<std::span<const float>> outputs;
  /// The values of each of EvalOptions::carried.
  std::vector<std::span<const std::int64_t>> carried = {};
};

using PredictionSink = std::function<void(const Prediction&)>;

/// Calls `each` with every sample, in the order of the epoch's slots for any number of devices and
/// processes, on rank 0's replica thread, so only in process 0; key and spans are valid until it
/// returns. A feed that does not say which slots a batch has (pipeline::Batch::slots) is taken in
/// rounds of one batch per replica, in the order of the ranks. Of the objective only inputs() is
/// used. Returns the number of samples, on every process. Throws: as evaluate(), but not Exhausted;
/// what `each` throws.
std::int64_t predict(const EvalInput& input, const EvalOptions& options,
                     const PredictionSink& each);

}  // namespace millrace::trainer
