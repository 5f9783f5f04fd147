#include "trainer/rules/lamb.h"

#include <cmath>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer {
namespace {

// One step's constants, and what they make of a chunk.
struct LambStep {
  float beta1;
  float beta2;
  float epsilon;
  float scale;  // of the gradient
  float decay;
  float inverse_bias1;
  float inverse_root_bias2;

  using Chunk = flat::Chunk<float>;

  Chunk next_mean(const auto& mean, const auto& g) const {
    return beta1 * mean + (1.0F - beta1) * (scale * g);
  }
  Chunk next_square(const auto& square, const auto& g) const {
    return beta2 * square + (1.0F - beta2) * (scale * g).square();
  }
  Chunk direction(const auto& w, const Chunk& mean, const Chunk& square) const {
    return inverse_bias1 * mean / (square.sqrt() * inverse_root_bias2 + epsilon) + decay * w;
  }
};

class LambRule final : public UpdateRule {
 public:
  explicit LambRule(const Lamb& options)
      : UpdateRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = {.lr = 1e-2}}),
        beta1_(options.betas[0]),
        beta2_(options.betas[1]),
        epsilon_(options.eps) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    flat::for_each_chunk(
        [of = lamb_step(step), lr = step.lr](auto w, auto g, auto mean, auto square) {
          const flat::Chunk<float> m = of.next_mean(mean, g);
          const flat::Chunk<float> v = of.next_square(square, g);
          mean = m;
          square = v;
          w -= lr * of.direction(w, m, v);
        },
        buffers.weights, buffers.gradients, buffers.states[0], buffers.states[1]);
  }

  bool uses_norms() const override { return true; }

  double square_sum(const RuleStep& step, const RuleBuffers& buffers) const override {
    using Values = std::span<const float>;
    return flat::sum_over(
        [of = lamb_step(step)](const auto& w, const auto& g, const auto& mean,
                               const auto& square) -> flat::Chunk<float> {
          return of.direction(w, of.next_mean(mean, g), of.next_square(square, g)).square();
        },
        Values(buffers.weights), buffers.gradients, Values(buffers.states[0]),
        Values(buffers.states[1]));
  }

  float rate_factor(const ParameterNorms& norms) const override {
    if (!(norms.weights > 0.0 && norms.direction > 0.0)) return 1.0F;
    return static_cast<float>(norms.weights / norms.direction);
  }

  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    const hlo::Tensor mean = hlo::moving_mean(of.states[0], of.gradient, beta1_);
    const hlo::Tensor square = hlo::moving_mean(of.states[1], of.gradient * of.gradient, beta2_);
    const hlo::Tensor root = hlo::sqrt(square) * hlo::rsqrt(hlo::bias_of_mean(of.step, beta2_));
    const hlo::Tensor unbiased = mean / hlo::bias_of_mean(of.step, beta1_);
    hlo::Tensor direction = unbiased / (root + static_cast<double>(epsilon_));
    if (of.weight_decay != 0.0F)
      direction = direction + of.weight * static_cast<double>(of.weight_decay);
    const hlo::Tensor lr = of.has_own_rate ? of.lr * own_rate(of.weight, direction) : of.lr;
    return hlo::RuleResults{.weight = of.weight - lr * direction, .states = {mean, square}};
  }

 private:
  /// rate_factor().
  static hlo::Tensor own_rate(const hlo::Tensor& weight, const hlo::Tensor& direction) {
    const hlo::Tensor weights = hlo::norm(weight);
    const hlo::Tensor under = hlo::norm(direction);
    const hlo::Tensor has_ratio = hlo::both(hlo::compare(weights, hlo::Order::kGreater, 0.0),
                                            hlo::compare(under, hlo::Order::kGreater, 0.0));
    return hlo::select(has_ratio, weights / under, 1.0);
  }

  LambStep lamb_step(const RuleStep& step) const {
    const auto bias_of = [t = static_cast<double>(step.step)](float keep) {
      return 1.0 - std::pow(static_cast<double>(keep), t);
    };
    return {.beta1 = beta1_,
            .beta2 = beta2_,
            .epsilon = epsilon_,
            .scale = step.gradient_scale,
            .decay = step.weight_decay,
            .inverse_bias1 = static_cast<float>(1.0 / bias_of(beta1_)),
            .inverse_root_bias2 = static_cast<float>(1.0 / std::sqrt(bias_of(beta2_)))};
  }

  float beta1_;
  float beta2_;
  float epsilon_;
};

}  // namespace

const ComponentName Lamb::kName = {"lamb", "LAMB",
                                   "AdamW with a rate for each layer, by its norms"};

void Lamb::fields(FieldList& field) {
  field("lr", lr, {.min = 0, .open_min = true}, "Learning rate [0.01]");
  field.by_name();
  field("betas", betas, {.min = 0, .max = 1, .open_max = true},
        "Decay of the mean of gradients, and of their squares");
  field("eps", eps, {.min = 0, .open_min = true}, "Added outside the root");
  list_decay_and_groups(field, weight_decay, groups);
}

void Lamb::check() const { require(betas.size() == 2, "betas are two, such as [0.9, 0.999]"); }

std::unique_ptr<UpdateRule> Lamb::make() const { return std::make_unique<LambRule>(*this); }

}  // namespace millrace::trainer
