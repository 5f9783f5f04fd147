#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/detail/update_rules.h"

namespace millrace::trainer::rules {
namespace {

class Lars final : public UpdateRule {
 public:
  explicit Lars(const OptimizerOptions& options)
      : momentum_(options.momentum), trust_(options.trust) {}

  std::vector<std::string> state_names() const override {
    if (momentum_ > 0.0F) return {"momentum_buffer"};
    return {};
  }

  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    const auto move_of = [lr = step.lr, scale = step.gradient_scale, decay = step.weight_decay](
                             const auto& w, const auto& g) {
      return flat::Chunk<float>(lr * (scale * g + decay * w));
    };
    if (buffers.states.empty()) {
      flat::for_each_chunk([move_of](auto w, auto g) { w -= move_of(w, g); }, buffers.weights,
                           buffers.gradients);
      return;
    }
    flat::for_each_chunk(
        [move_of, momentum = momentum_](auto w, auto g, auto buffer) {
          const flat::Chunk<float> next = momentum * buffer + move_of(w, g);
          buffer = next;
          w -= next;
        },
        buffers.weights, buffers.gradients, buffers.states[0]);
  }

  bool uses_norms() const override { return true; }

  // Weights or gradients that are all zero have no ratio of norms: they keep the plain rate.
  float rate_factor(const ParameterNorms& norms) const override {
    const double under = norms.gradient + norms.weight_decay * norms.weights;
    if (!(norms.weights > 0.0 && under > 0.0)) return 1.0F;
    return static_cast<float>(static_cast<double>(trust_) * norms.weights / under);
  }

 private:
  float momentum_;
  float trust_;
};

}  // namespace

std::unique_ptr<UpdateRule> lars(const OptimizerOptions& options) {
  require(options.momentum >= 0.0F && options.momentum < 1.0F, "momentum must lie in [0, 1)");
  return std::make_unique<Lars>(options);
}

}  // namespace millrace::trainer::rules
