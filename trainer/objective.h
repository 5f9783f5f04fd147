// Objective: what a run minimises and what it measures, over one batch's outputs.
//
// Measures are sums over valid samples, so that they add up over batches and replicas exactly; a
// measure's value is its sum over the number of valid samples. The first is always the loss.
//
//   LossObjective objective({.inputs = {"image"}, .heads = {{.loss = "cross_entropy"}}});
//
// Threads: const, from many threads at once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "trainer/loss/loss.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer {

struct ScoreRequest {
  nn::Plan& plan;
  const pipeline::Batch& batch;
  /// Fills plan.output_gradient() with d (sum of losses / divisor) / d output.
  bool gradients = false;
  /// Valid samples over all replicas (and accumulated batches): gradients need only be summed.
  double divisor = 1.0;
};

class Objective {
 public:
  virtual ~Objective() = default;

  /// "loss" first, then for example "top1", "top5".
  virtual const std::vector<std::string>& measures() const = 0;
  /// Names of the batch fields that are the plan's inputs, in the plan's order.
  virtual const std::vector<std::string>& inputs() const = 0;
  /// Adds the batch's sums to `sums`, one a measure. Throws: Corrupt, with the sample's key, for a
  /// label outside the classes; InvalidArgument for fields that do not fit the outputs.
  virtual void score(const ScoreRequest& request, std::span<double> sums) const = 0;
};

/// One output of the model and what it is compared with.
struct Head {
  std::size_t output = 0;
  std::string loss = "cross_entropy";  ///< a name of make_loss()
  LossOptions options = {};
  std::string target = "label";  ///< a batch field: int64 labels, or float32 values
  double weight = 1.0;           ///< of this head's loss in the sum
};

struct LossObjectiveOptions {
  std::vector<std::string> inputs = {"image"};
  std::vector<Head> heads = {Head{}};
};

/// The weighted sum of one loss a head. Measures: "loss"; with cross-entropy "top1" and "top5";
/// with several heads each one's own, as "loss.0".
class LossObjective final : public Objective {
 public:
  /// Throws: InvalidArgument for an unknown loss, or no head.
  explicit LossObjective(LossObjectiveOptions options = {});
  ~LossObjective() override;

  const std::vector<std::string>& measures() const override { return measures_; }
  const std::vector<std::string>& inputs() const override { return options_.inputs; }
  void score(const ScoreRequest& request, std::span<double> sums) const override;

 private:
  LossObjectiveOptions options_;
  std::vector<std::unique_ptr<Loss>> losses_;
  std::vector<std::string> measures_;
};

}  // namespace millrace::trainer
