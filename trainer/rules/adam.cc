#include "trainer/rules/adam.h"

#include <cmath>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"

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

class AdamRule final : public UpdateRule {
 public:
  template <typename Options>
  AdamRule(const Options& options, Decay decay)
      : UpdateRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = {.lr = 1e-3}}),
        beta1_(options.betas[0]),
        beta2_(options.betas[1]),
        epsilon_(options.eps),
        decay_(decay) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

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
    const hlo::Tensor mean = hlo::moving_mean(of.states[0], gradient, beta1_);
    const hlo::Tensor square = hlo::moving_mean(of.states[1], gradient * gradient, beta2_);
    const hlo::Tensor root = hlo::sqrt(square) * hlo::rsqrt(hlo::bias_of_mean(of.step, beta2_));
    const hlo::Tensor lr = of.lr / hlo::bias_of_mean(of.step, beta1_);
    const hlo::Tensor move = lr * (mean / (root + static_cast<double>(epsilon_)));
    const hlo::Tensor kept = of_weights ? hlo::decayed_weight(of) : of.weight;
    return hlo::RuleResults{.weight = kept - move, .states = {mean, square}};
  }

 private:
  Factors factors(const RuleStep& step) const {
    const auto t = static_cast<double>(step.step);
    const double bias1 = 1.0 - std::pow(static_cast<double>(beta1_), t);
    const double bias2 = 1.0 - std::pow(static_cast<double>(beta2_), t);
    const bool of_weights = decay_ == Decay::kOfWeights;
    return {.beta1 = beta1_,
            .beta2 = beta2_,
            .gain1 = 1.0F - beta1_,
            .gain2 = 1.0F - beta2_,
            .epsilon = epsilon_,
            .scale = step.gradient_scale,
            .decay = of_weights ? 0.0F : step.weight_decay,
            .shrink = of_weights ? 1.0F - step.lr * step.weight_decay : 1.0F,
            .lr = static_cast<float>(static_cast<double>(step.lr) / bias1),
            .inverse_root_bias2 = static_cast<float>(1.0 / std::sqrt(bias2))};
  }

  float beta1_;
  float beta2_;
  float epsilon_;
  Decay decay_;
};

template <typename Options>
void list_adam(Options& options, FieldList& field) {
  field("lr", options.lr, {.min = 0, .open_min = true}, "Learning rate [0.001]");
  field.by_name();
  field("betas", options.betas, {.min = 0, .max = 1, .open_max = true},
        "Decay of the mean of gradients, and of their squares");
  field("eps", options.eps, {.min = 0, .open_min = true}, "Added outside the root");
  list_decay_and_groups(field, options.weight_decay, options.groups);
}

void check_betas(const std::vector<float>& betas) {
  require(betas.size() == 2, "betas are two, such as [0.9, 0.999]");
}

}  // namespace

const ComponentName Adam::kName = {"adam", "Adam", "Steps of a size for each weight"};
const ComponentName AdamW::kName = {"adamw", "AdamW", "Adam with decay of the weights themselves"};

void Adam::fields(FieldList& field) { list_adam(*this, field); }
void AdamW::fields(FieldList& field) { list_adam(*this, field); }

void Adam::check() const { check_betas(betas); }
void AdamW::check() const { check_betas(betas); }

std::unique_ptr<UpdateRule> Adam::make() const {
  return std::make_unique<AdamRule>(*this, Decay::kInGradient);
}

std::unique_ptr<UpdateRule> AdamW::make() const {
  return std::make_unique<AdamRule>(*this, Decay::kOfWeights);
}

}  // namespace millrace::trainer
