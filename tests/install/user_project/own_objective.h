// A loss and a measure of one's own, in Eigen: softmax cross-entropy over the model's one output.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "millrace/decode/eigen.h"
#include "millrace/trainer/objective.h"

class OwnObjective final : public millrace::trainer::Objective {
 public:
  const std::vector<std::string>& measures() const override { return measures_; }
  const std::vector<std::string>& inputs() const override { return inputs_; }

  void score(const millrace::trainer::ScoreRequest& request,
             std::span<double> sums) const override {
    const auto logits = request.plan.output(0).matrix();                      // (N, K)
    const auto labels = request.batch.field("label").vector<std::int64_t>();  // (N)
    const auto shift = logits.rowwise().maxCoeff().eval();
    Eigen::ArrayXXf shares = (logits.colwise() - shift).array().exp();
    shares.colwise() /= shares.rowwise().sum().eval();
    for (Eigen::Index i = 0; i < shares.rows(); ++i) {
      if (request.batch.valid[static_cast<std::size_t>(i)] == 0) {
        shares.row(i).setZero();  // a masked slot: no loss, no gradient
        continue;
      }
      Eigen::Index best = 0;
      logits.row(i).maxCoeff(&best);
      sums[0] -= static_cast<double>(std::log(shares(i, labels[i])));
      sums[1] += best == labels[i] ? 1.0 : 0.0;
      shares(i, labels[i]) -= 1.0F;
    }
    if (!request.gradients) return;
    request.plan.output_gradient(0).matrix() =
        (shares / static_cast<float>(request.divisor)).matrix();
  }

 private:
  std::vector<std::string> measures_ = {"loss", "top1"};
  std::vector<std::string> inputs_ = {"image"};
};
