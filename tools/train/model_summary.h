// model_summary: a model's layers and the cost of a step, without data.
#pragma once

#include "tools/output.h"
#include "tools/train/model_choice.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {

struct SummaryOptions {
  std::int64_t batch_size = 1;
  trainer::nn::Precision precision = trainer::nn::Precision::kBFloat16;
  bool json = false;
};

/// Prints the layers with shapes, parameters and multiply-adds per sample, and the activation
/// memory of a device's training step. As JSON: one object per layer, and one of totals.
void print_model_summary(const trainer::GraphModel& model, const SummaryOptions& options,
                         Output& out);

}  // namespace millrace::tools
