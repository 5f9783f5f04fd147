// Objective: what a run minimises and what it measures, over one batch's outputs.
//
// Measures are sums over valid samples, so that they add up over batches and replicas exactly; a
// measure's value is its sum over the number of valid samples. The first measure is always the
// loss.
//
// Threads: const, from many threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer {

struct ScoreRequest {
  nn::Plan& plan;
  const pipeline::Batch& batch;
  /// Fills plan.output_gradient() with d (sum of losses / denominator) / d output.
  bool gradients = false;
  /// Valid samples over all replicas (times accumulation), so that gradients need only be summed.
  double denominator = 1.0;
};

class Objective {
 public:
  virtual ~Objective() = default;

  /// "loss" first, then for example "top1", "top5".
  virtual const std::vector<std::string>& measures() const = 0;
  /// Names of the batch fields that are the plan's inputs, in the plan's order.
  virtual const std::vector<std::string>& inputs() const = 0;
  /// Adds the batch's sums to `sums`, one a measure. Throws: InvalidArgument, with the sample's
  /// key, for a target that makes no sense (label ≥ classes).
  virtual void score(const ScoreRequest& request, std::span<double> sums) const = 0;
};

}  // namespace millrace::trainer
