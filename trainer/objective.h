// Objective: what a run minimises and what it measures, over one batch's outputs.
//
// Measures are computed from sums over valid samples, which add up over batches and replicas, and,
// in evaluation, from records: values of every sample, for measures that sums do not determine.
//
//   LossObjective objective({.inputs = {"image"}, .heads = {{.loss = losses::CrossEntropy{}}}});
//
// Threads: const, from many threads at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "trainer/events.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer {

class Collectives;
struct ClassCounts;

namespace hlo {
struct ScoreArguments;
struct ScoreResults;
}  // namespace hlo

struct ScoreRequest {
  nn::Plan& plan;
  const pipeline::Batch& batch;
  /// Fills plan.output_gradient() with d (sum of losses / divisor) / d output.
  bool gradients = false;
  /// Valid samples over all replicas (and accumulated batches): gradients need only be summed.
  double divisor = 1.0;
  /// In evaluation: where records are appended. Null in training.
  std::vector<float>* records = nullptr;
  /// In training: the rank's, for losses that compare its slots with those of other ranks. Null:
  /// the batch alone.
  Collectives* group = nullptr;
};

/// The sums and records of all batches, over all replicas.
struct Tally {
  std::span<const double> sums;  ///< the first is the loss's
  double samples = 0;
  std::span<const float> records = {};  ///< in no particular order of the samples; whole records
};

/// Measures of a head beside its loss.
enum class Metric {
  kAuroc,          ///< "auroc": mean over the labels that occur; in evaluation only
  kIou,            ///< "iou": of binary masks, mean over both classes
  kRmse,           ///< "rmse"
  kMiou,           ///< "miou": of masks of classes, mean over those that occur; "iou/NAME" of each
  kPixelAccuracy,  ///< "pixel_accuracy": of masks of classes, share of pixels predicted right
};

/// One output of the model and what it is compared with.
struct Head {
  std::size_t output = 0;
  std::string name = {};  ///< for measures; empty: the head's number
  LossChoice loss = losses::CrossEntropy{};
  std::string target = "label";  ///< a batch field: int64 labels, or float32 values
  /// Float32 targets that are NaN have no value there (padding), and count for nothing in the loss
  /// and the measures; otherwise a NaN is a fault.
  bool may_lack_targets = false;
  std::int64_t classes = 0;                   ///< of a mask of classes; for kMiou
  std::vector<std::string> class_names = {};  ///< for "iou/NAME"; without a name, the number
  double weight = 1.0;                        ///< of this head's loss in the sum
  /// In training the target is a mixture of two labels (pipeline/mixup.h). Requires: a loss of
  /// labels per sample. Measures count the first label.
  bool mixes = false;
  std::vector<Metric> metrics = {};
};

/// The batch fields that a head is compared with: in training that of a mixture's other label and
/// that of the first one's share, too.
std::vector<std::string> target_fields(const Head& head, bool training);

class Objective {
 public:
  virtual ~Objective() = default;

  /// The names of finish()'s values: "loss" first, then for example "top1", "top5".
  virtual const std::vector<std::string>& measures() const = 0;
  /// Names of the batch fields that are the plan's inputs, in the plan's order.
  virtual const std::vector<std::string>& inputs() const = 0;
  /// The model's outputs that it reads, each with the batch field that it is compared with: all
  /// that a backend needs to compute the losses itself, or to bring to where score() does. Default:
  /// none, score() may read every output and field.
  virtual std::span<const Head> heads() const { return {}; }
  /// Names of all batch fields that it reads in training: inputs(), then the heads' targets.
  std::vector<std::string> fields() const;
  virtual std::size_t num_sums() const { return measures().size(); }
  /// Adds the batch's sums to `sums`, num_sums() of them. Throws: Corrupt, with the sample's key,
  /// for a label outside the classes; InvalidArgument for fields that do not fit the outputs.
  virtual void score(const ScoreRequest& request, std::span<double> sums) const = 0;
  /// Whether score() is a collective of ScoreRequest::group. Default: no.
  virtual bool is_collective() const { return false; }
  /// In place of score() on a rank without a sample, in training, where another rank has one: takes
  /// part in what they compute together. Default: nothing.
  virtual void score_nothing(Collectives& group) const;
  /// What a compiled program cannot do of score(), for a backend that has one: throws what score()
  /// would for the batch's targets. `outputs`: the shape of each of the model's, of one sample.
  /// Default: nothing.
  virtual void check_targets(const pipeline::Batch& batch,
                             std::span<const nn::Shape> outputs) const;
  /// Likewise: appends score()'s records. `outputs`: the model's; those that no measure with
  /// records reads may be empty. Default: none.
  virtual void add_records(const pipeline::Batch& batch, std::span<const nn::OutputView> outputs,
                           std::vector<float>& records) const;
  /// score() in a compiled program (trainer/hlo/score_program.h): every head's output and target
  /// are among the arguments. Default: none; a backend that compiles its steps refuses the
  /// objective. Throws: Unsupported, by name, for a loss without StableHLO.
  virtual std::optional<hlo::ScoreResults> stablehlo(const hlo::ScoreArguments& of) const;
  /// The measures' values, without those that need records if there are none. Default: each sum
  /// divided by the number of samples.
  virtual NamedValues finish(const Tally& tally) const;
};

struct LossObjectiveOptions {
  std::vector<std::string> inputs = {"image"};
  std::vector<Head> heads = {Head{}};
};

/// The weighted sum of the heads' losses. Measures: "loss"; with a class per slot, or slots of the
/// same sample, "top1", "top5";
/// each head's metrics: auroc, iou and rmse for float32 targets, miou and pixel_accuracy for
/// labels. With several heads also each one's loss, as "loss.mask", and a metric that several have
/// is named "iou.mask".
class LossObjective final : public Objective {
 public:
  /// Throws: InvalidArgument for a loss's parameter out of range, or no head.
  explicit LossObjective(LossObjectiveOptions options = {});
  ~LossObjective() override;

  const std::vector<std::string>& measures() const override { return measures_; }
  const std::vector<std::string>& inputs() const override { return options_.inputs; }
  std::span<const Head> heads() const override { return options_.heads; }
  std::size_t num_sums() const override { return num_sums_; }
  void score(const ScoreRequest& request, std::span<double> sums) const override;
  bool is_collective() const override;
  void score_nothing(Collectives& group) const override;
  void check_targets(const pipeline::Batch& batch,
                     std::span<const nn::Shape> outputs) const override;
  void add_records(const pipeline::Batch& batch, std::span<const nn::OutputView> outputs,
                   std::vector<float>& records) const override;
  std::optional<hlo::ScoreResults> stablehlo(const hlo::ScoreArguments& of) const override;
  NamedValues finish(const Tally& tally) const override;

 private:
  /// A measure: where its sums begin, and what they are.
  struct Part {
    enum class Kind { kMean, kMetric };
    std::string name;
    Kind kind = Kind::kMean;
    Metric metric = Metric::kRmse;
    std::size_t head = 0;
    std::size_t first = 0;
  };

  void add_part(Part part);
  void score_classes(const ClassCounts& counts, std::size_t head, std::span<double> sums) const;
  /// Whether a head before this one reads the same output.
  bool reads_again(std::size_t head) const;
  void score_head(const ScoreRequest& request, std::size_t head, std::span<double> sums) const;

  LossObjectiveOptions options_;
  std::vector<std::unique_ptr<Loss>> losses_;
  std::vector<Part> parts_;
  std::vector<std::string> measures_;
  std::size_t num_sums_ = 0;
};

}  // namespace millrace::trainer
