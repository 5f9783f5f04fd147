// ViewObjective: evaluates by several views of each picture (test-time augmentation).
//
// In evaluation the model computes each view of a batch; the mean of its outputs, by the views'
// shares, is what the objective around it scores. In training nothing is changed. Outputs have no
// place in the picture: classes, labels, not masks.
//
//   const ViewObjective viewed(objective, EvaluationViews::kMirror);
//   trainer::evaluate({.model = model, .objective = viewed, ...}, options);
//
// Threads: as Objective.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/words.h"
#include "trainer/objective.h"

namespace millrace::tools {

/// Source of kMirrorShift: airbench94's evaluation.
enum class EvaluationViews {
  kOne,         ///< the picture
  kMirror,      ///< and its mirror image, a half each
  kMirrorShift  ///< these, a quarter each; and an eighth each: both shifted by one pixel, up and
                ///< left and down and right, the border reflected
};

/// As --views takes them.
inline constexpr std::array<Word<EvaluationViews>, 3> kViewWords = {
    {{"one", EvaluationViews::kOne},
     {"mirror", EvaluationViews::kMirror},
     {"mirror-shift", EvaluationViews::kMirrorShift}}};
CLI::Option* declare_views(CLI::App& app, EvaluationViews& views);
/// Throws: InvalidArgument for several views of a model whose outputs are pictures.
void check_views(EvaluationViews views, bool is_dense);

class ViewObjective final : public trainer::Objective {
 public:
  /// Borrows `objective`.
  ViewObjective(const trainer::Objective& objective, EvaluationViews views)
      : objective_(objective), views_(views) {}

  const std::vector<std::string>& measures() const override { return objective_.measures(); }
  const std::vector<std::string>& inputs() const override { return objective_.inputs(); }
  std::span<const trainer::Head> heads() const override { return objective_.heads(); }
  std::size_t num_sums() const override { return objective_.num_sums(); }
  /// In evaluation also replaces the plan's outputs by their mean over the views. Throws: as the
  /// objective's score().
  void score(const trainer::ScoreRequest& request, std::span<double> sums) const override;
  bool is_collective() const override { return objective_.is_collective(); }
  void score_nothing(trainer::Collectives& group) const override {
    objective_.score_nothing(group);
  }
  void check_targets(const pipeline::Batch& batch,
                     std::span<const trainer::nn::Shape> outputs) const override;
  void add_records(const pipeline::Batch& batch, std::span<const trainer::nn::OutputView> outputs,
                   std::vector<float>& records) const override;
  /// None with several views, which a program has not.
  std::optional<trainer::hlo::ScoreResults> stablehlo(
      const trainer::hlo::ScoreArguments& of) const override;
  trainer::NamedValues finish(const trainer::Tally& tally) const override {
    return objective_.finish(tally);
  }

 private:
  const trainer::Objective& objective_;
  EvaluationViews views_;
};

}  // namespace millrace::tools
