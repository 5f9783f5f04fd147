// RetrievalObjective: finds, in evaluation, each image's text among all of the set's, and each
// text's image, beside what a loss of two towers measures in each batch.
//
//   const RetrievalObjective objective({.inputs = {"image", "text"},
//                                       .heads = {{.loss = losses::Clip{}, .target = "sample"}}});
//
// Measures, behind those of LossObjective: image_to_text_r1, image_to_text_r5,
// text_to_image_r1, text_to_image_r5: the share of the samples that have one of theirs among the
// nearest one and five by the cosine of the embeddings. Other samples that are as near count as
// nearer, so that embeddings all alike find nothing. Like AUROC they are of the whole set, exact,
// and the same on any number of devices: embeddings are kept until its end, 8 F bytes of a sample,
// and compared in blocks, N * N * F products.
//
// Threads: as Objective.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/objective.h"

namespace millrace::trainer {

class RetrievalObjective final : public Objective {
 public:
  /// The first head compares embeddings (N, 2 F) with sample numbers, int64 (N). Throws: as
  /// LossObjective.
  explicit RetrievalObjective(LossObjectiveOptions options);

  const std::vector<std::string>& measures() const override { return measures_; }
  const std::vector<std::string>& inputs() const override { return objective_.inputs(); }
  std::span<const Head> heads() const override { return objective_.heads(); }
  std::size_t num_sums() const override { return objective_.num_sums(); }
  void score(const ScoreRequest& request, std::span<double> sums) const override;
  bool is_collective() const override { return objective_.is_collective(); }
  void score_nothing(Collectives& group) const override { objective_.score_nothing(group); }
  void check_targets(const pipeline::Batch& batch,
                     std::span<const nn::Shape> outputs) const override {
    objective_.check_targets(batch, outputs);
  }
  void add_records(const pipeline::Batch& batch, std::span<const nn::OutputView> outputs,
                   std::vector<float>& records) const override;
  std::optional<hlo::ScoreResults> stablehlo(const hlo::ScoreArguments& of) const override;
  NamedValues finish(const Tally& tally) const override;

 private:
  LossObjective objective_;
  std::vector<std::string> measures_;
};

}  // namespace millrace::trainer
