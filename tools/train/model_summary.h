// model_summary: what a model is made of and what a step of it takes, before there is any data.
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

/// Layers with shapes, parameters and multiply-adds of a sample, and the memory that a device's
/// training step needs for activations. As JSON: one object a layer, and one of totals.
void print_model_summary(const trainer::GraphModel& model, const SummaryOptions& options,
                         Output& out);

}  // namespace millrace::tools
