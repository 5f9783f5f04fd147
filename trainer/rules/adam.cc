#include "trainer/rules/adam.h"

#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"
#include "trainer/rules/detail/moments.h"

namespace millrace::trainer {
namespace {

enum class Decay { kInGradient, kOfWeights };

// One step's constants.
struct Factors {
  float beta1;
  float beta2;
  float gain1;  // 1 - beta
  float gain2;
  float epsilon;
  float scale;   // of the gradient
  float decay;   // added to the gradient
  float shrink;  // of the weights
  float lr;      // over the first moment's bias
  float inverse_root_bias2;
};

class AdamRule final : public detail::MomentsRule {
 public:
  template <typename Options>
  AdamRule(const Options& options, Decay decay)
      : MomentsRule(options, {.lr = 1e-3}), decay_(decay) {}

  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    flat::for_each_chunk(
        [f = factors(step)](auto w, auto g, auto mean, auto square) {
          const flat::Chunk<float> gradient = f.scale * g + f.decay * w;
          const flat::Chunk<float> m = f.beta1 * mean + f.gain1 * gradient;
          const flat::Chunk<float> v = f.beta2 * square + f.gain2 * gradient * gradient;
          mean = m;
          square = v;
          w = f.shrink * w - f.lr * (m / (v.sqrt() * f.inverse_root_bias2 + f.epsilon));
        },
        buffers.weights, buffers.gradients, buffers.states[0], buffers.states[1]);
  }

  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    const bool of_weights = decay_ == Decay::kOfWeights;
    const hlo::Tensor gradient = of_weights ? of.gradient : hlo::decayed_gradient(of);
    const Program moments = program(of, gradient);
    const hlo::Tensor move = of.lr / moments.bias1 * (moments.mean / moments.under);
    const hlo::Tensor kept = of_weights ? hlo::decayed_weight(of) : of.weight;
    return hlo::RuleResults{.weight = kept - move, .states = {moments.mean, moments.square}};
  }

 private:
  Factors factors(const RuleStep& step) const {
    const bool of_weights = decay_ == Decay::kOfWeights;
    return {.beta1 = beta1_,
            .beta2 = beta2_,
            .gain1 = 1.0F - beta1_,
            .gain2 = 1.0F - beta2_,
            .epsilon = epsilon_,
            .scale = step.gradient_scale,
            .decay = of_weights ? 0.0F : step.weight_decay,
            .shrink = of_weights ? 1.0F - step.lr * step.weight_decay : 1.0F,
            .lr = static_cast<float>(static_cast<double>(step.lr) / bias1(step.step)),
            .inverse_root_bias2 = inverse_root_bias2(step.step)};
  }

  Decay decay_;
};

constexpr const char* kRate = "Learning rate [0.001]";

}  // namespace

const ComponentName Adam::kName = {"adam", "Adam", "Steps of a size for each weight"};
const ComponentName AdamW::kName = {"adamw", "AdamW", "Adam with decay of the weights themselves"};

void Adam::fields(FieldList& field) { detail::list_moments(*this, field, kRate); }
void AdamW::fields(FieldList& field) { detail::list_moments(*this, field, kRate); }

void Adam::check() const { detail::check_betas(betas); }
void AdamW::check() const { detail::check_betas(betas); }

std::unique_ptr<UpdateRule> Adam::make() const {
  return std::make_unique<AdamRule>(*this, Decay::kInGradient);
}

std::unique_ptr<UpdateRule> AdamW::make() const {
  return std::make_unique<AdamRule>(*this, Decay::kOfWeights);
}

}  // namespace millrace::trainer
