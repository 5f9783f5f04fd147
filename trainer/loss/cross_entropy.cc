#include <algorithm>
#include <cmath>
#include <string>

#include "io/base/error.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer::losses {
namespace {

using Row = std::span<const float>;

float log_sum_exp(Row logits) {
  const float top = *std::ranges::max_element(logits);
  float sum = 0;
  for (const float x : logits) sum += std::exp(x - top);
  return top + std::log(sum);
}

// How many classes stand before `label`; of equals the lower index is first.
std::size_t rank_of(Row logits, std::size_t label) {
  std::size_t before = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    before += logits[k] > logits[label] || (logits[k] == logits[label] && k < label) ? 1 : 0;
  }
  return before;
}

class CrossEntropy final : public Loss {
 public:
  explicit CrossEntropy(float smoothing) : smoothing_(smoothing) {}

  LossSums evaluate(const LossInput& input) const override {
    check(input);
    const auto classes = static_cast<std::size_t>(input.prediction.shape[1]);
    LossSums sums;
    for (std::size_t slot = 0; slot < input.valid.size(); ++slot) {
      const Row logits = input.prediction.data.subspan(slot * classes, classes);
      std::span<float> gradient;
      if (!input.gradient.empty()) gradient = input.gradient.subspan(slot * classes, classes);
      if (input.valid[slot] == 0) {
        std::ranges::fill(gradient, 0.0F);
        continue;
      }
      const auto label = static_cast<std::size_t>(input.target.labels[slot]);
      sums += one(logits, label, input.divisor, gradient);
    }
    return sums;
  }

 private:
  static void check(const LossInput& input) {
    const auto& shape = input.prediction.shape;
    const auto slots = static_cast<std::size_t>(shape.empty() ? 0 : shape[0]);
    const bool fits =
        shape.size() == 2 && input.target.labels.size() == slots && input.valid.size() == slots &&
        (input.gradient.empty() || input.gradient.size() == input.prediction.data.size());
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  "cross_entropy needs logits (N, K), N labels and N flags, got logits " +
                      nn::shape_text(shape) + ", " + std::to_string(input.target.labels.size()) +
                      " labels and " + std::to_string(input.valid.size()) + " flags");
    }
    const auto bad = first_bad_label(input.target.labels, input.valid, shape[1]);
    if (!bad) return;
    throw Error(ErrorCode::kCorrupt, "label " + std::to_string(input.target.labels[*bad]) +
                                         " in slot " + std::to_string(*bad) +
                                         " is none of the model's " + std::to_string(shape[1]) +
                                         " classes");
  }

  LossSums one(Row logits, std::size_t label, double divisor, std::span<float> gradient) const {
    const float log_sum = log_sum_exp(logits);
    const float spread = smoothing_ / static_cast<float>(logits.size());
    double loss = (1.0F - smoothing_) * (log_sum - logits[label]);
    for (std::size_t k = 0; smoothing_ > 0 && k < logits.size(); ++k) {
      loss += spread * (log_sum - logits[k]);
    }
    const auto scale = static_cast<float>(1.0 / divisor);
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      const float target = spread + (k == label ? 1.0F - smoothing_ : 0.0F);
      gradient[k] = scale * (std::exp(logits[k] - log_sum) - target);
    }
    const std::size_t rank = rank_of(logits, label);
    return {.loss = loss, .num_valid = 1, .top1 = rank < 1 ? 1 : 0, .top5 = rank < 5 ? 1 : 0};
  }

  float smoothing_;
};

}  // namespace

std::unique_ptr<Loss> cross_entropy(const LossOptions& options) {
  if (options.label_smoothing < 0 || options.label_smoothing >= 1) {
    throw Error(ErrorCode::kInvalidArgument, "label smoothing lies in [0, 1)");
  }
  return std::make_unique<CrossEntropy>(options.label_smoothing);
}

}  // namespace millrace::trainer::losses
