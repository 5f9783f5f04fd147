#include "trainer/rules/lamb.h"

#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"
#include "trainer/rules/detail/moments.h"

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

class LambRule final : public detail::MomentsRule {
 public:
  explicit LambRule(const Lamb& options) : MomentsRule(options, {.lr = 1e-2}) {}

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
    const Program moments = program(of, of.gradient);
    hlo::Tensor direction = moments.mean / moments.bias1 / moments.under;
    if (of.weight_decay != 0.0F)
      direction = direction + of.weight * static_cast<double>(of.weight_decay);
    const hlo::Tensor lr =
        of.has_own_rate ? of.lr * hlo::ratio_or_one(hlo::norm(of.weight), hlo::norm(direction))
                        : of.lr;
    return hlo::RuleResults{.weight = of.weight - lr * direction,
                            .states = {moments.mean, moments.square}};
  }

 private:
  LambStep lamb_step(const RuleStep& step) const {
    return {.beta1 = beta1_,
            .beta2 = beta2_,
            .epsilon = epsilon_,
            .scale = step.gradient_scale,
            .decay = step.weight_decay,
            .inverse_bias1 = static_cast<float>(1.0 / bias1(step.step)),
            .inverse_root_bias2 = inverse_root_bias2(step.step)};
  }
};

}  // namespace

const ComponentName Lamb::kName = {"lamb", "LAMB",
                                   "AdamW with a rate for each layer, by its norms"};

void Lamb::fields(FieldList& field) { detail::list_moments(*this, field, "Learning rate [0.01]"); }

void Lamb::check() const { detail::check_betas(betas); }

std::unique_ptr<UpdateRule> Lamb::make() const { return std::make_unique<LambRule>(*this); }

}  // namespace millrace::trainer
