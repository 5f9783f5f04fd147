#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/detail/update_rules.h"

namespace millrace::trainer::rules {
namespace {

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimizerOptions& options)
      : momentum_(options.momentum), gain_(1.0F - options.dampening), nesterov_(options.nesterov) {}

  std::vector<std::string> state_names() const override {
    if (momentum_ > 0.0F) return {"momentum_buffer"};
    return {};
  }

  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    if (buffers.states.empty()) {
      plain(step, buffers);
    } else {
      with_momentum(step, buffers);
    }
  }

 private:
  static void plain(const RuleStep& step, const RuleBuffers& buffers) {
    flat::for_each_chunk([lr = step.lr, scale = step.gradient_scale, decay = step.weight_decay](
                             auto w, auto g) { w -= lr * (scale * g + decay * w); },
                         buffers.weights, buffers.gradients);
  }

  void with_momentum(const RuleStep& step, const RuleBuffers& buffers) const {
    const bool first = step.step == 1;
    flat::for_each_chunk(
        [lr = step.lr, scale = step.gradient_scale, decay = step.weight_decay,
         keep = first ? 0.0F : momentum_, gain = first ? 1.0F : gain_,
         of_gradient = nesterov_ ? 1.0F : 0.0F,
         of_buffer = nesterov_ ? momentum_ : 1.0F](auto w, auto g, auto buffer) {
          const flat::Chunk<float> gradient = scale * g + decay * w;
          const flat::Chunk<float> next = keep * buffer + gain * gradient;
          buffer = next;
          w -= lr * (of_gradient * gradient + of_buffer * next);
        },
        buffers.weights, buffers.gradients, buffers.states[0]);
  }

  float momentum_;
  float gain_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<UpdateRule> sgd(const OptimizerOptions& options) {
  require(options.momentum >= 0.0F && options.momentum < 1.0F, "momentum must lie in [0, 1)");
  require(!options.nesterov || (options.momentum > 0.0F && options.dampening == 0.0F),
          "Nesterov needs a momentum and no dampening");
  return std::make_unique<Sgd>(options);
}

}  // namespace millrace::trainer::rules
