#include "trainer/rules/lars.h"

#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer {
namespace {

class LarsRule final : public UpdateRule {
 public:
  explicit LarsRule(const Lars& options)
      : UpdateRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = {.lr = 4.0, .lr_batch = 128, .warmup_steps = 100}}),
        momentum_(options.momentum),
        trust_(options.trust) {}

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
    const double under = norms.direction + norms.weight_decay * norms.weights;
    if (!(norms.weights > 0.0 && under > 0.0)) return 1.0F;
    return static_cast<float>(static_cast<double>(trust_) * norms.weights / under);
  }

  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    const hlo::Tensor lr = of.has_own_rate ? of.lr * own_rate(of) : of.lr;
    const hlo::Tensor move = lr * hlo::decayed_gradient(of);
    if (of.states.empty()) return hlo::RuleResults{.weight = of.weight - move};
    const hlo::Tensor next = of.states[0] * static_cast<double>(momentum_) + move;
    return hlo::RuleResults{.weight = of.weight - next, .states = {next}};
  }

 private:
  /// rate_factor().
  hlo::Tensor own_rate(const hlo::RuleArguments& of) const {
    const hlo::Tensor weights = hlo::norm(of.weight);
    const hlo::Tensor under =
        hlo::norm(of.gradient) + weights * static_cast<double>(of.weight_decay);
    return hlo::ratio_or_one(weights, under, static_cast<double>(trust_));
  }

  float momentum_;
  float trust_;
};

}  // namespace

const ComponentName Lars::kName = {"lars", "LARS", "SGD with a rate for each layer, by its norms"};

void Lars::fields(FieldList& field) {
  field("lr", lr, {.min = 0, .open_min = true},
        "Learning rate [4; less below 128 samples per step]");
  field("momentum", momentum, {.min = 0, .max = 1, .open_max = true}, "Momentum");
  field.by_name();
  field("trust", trust, {.min = 0, .open_min = true}, "Trust coefficient");
  list_decay_and_groups(field, weight_decay, groups);
}

std::unique_ptr<UpdateRule> Lars::make() const { return std::make_unique<LarsRule>(*this); }

}  // namespace millrace::trainer
