#include <cmath>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/detail/update_rules.h"

namespace millrace::trainer::rules {
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

class Adam final : public UpdateRule {
 public:
  Adam(const OptimizerOptions& options, Decay decay)
      : beta1_(options.beta1), beta2_(options.beta2), epsilon_(options.epsilon), decay_(decay) {}

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

std::unique_ptr<UpdateRule> make(const OptimizerOptions& options, Decay decay) {
  require(options.beta1 >= 0.0F && options.beta1 < 1.0F && options.beta2 >= 0.0F &&
              options.beta2 < 1.0F,
          "Adam's betas must lie in [0, 1)");
  return std::make_unique<Adam>(options, decay);
}

}  // namespace

std::unique_ptr<UpdateRule> adam(const OptimizerOptions& options) {
  return make(options, Decay::kInGradient);
}

std::unique_ptr<UpdateRule> adamw(const OptimizerOptions& options) {
  return make(options, Decay::kOfWeights);
}

}  // namespace millrace::trainer::rules
