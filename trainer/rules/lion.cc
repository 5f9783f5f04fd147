#include "trainer/rules/lion.h"

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer {
namespace {

class LionRule final : public UpdateRule {
 public:
  explicit LionRule(const Lion& options)
      : UpdateRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = {.lr = 3e-4}}),
        beta1_(options.betas[0]),
        beta2_(options.betas[1]) {}

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }

  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    flat::for_each_chunk(
        [lr = step.lr, scale = step.gradient_scale, shrink = 1.0F - step.lr * step.weight_decay,
         beta1 = beta1_, beta2 = beta2_](auto w, auto g, auto mean) {
          const flat::Chunk<float> gradient = scale * g;
          const flat::Chunk<float> direction = beta1 * mean + (1.0F - beta1) * gradient;
          const flat::Chunk<float> next = beta2 * mean + (1.0F - beta2) * gradient;
          mean = next;
          w = shrink * w - lr * direction.sign();
        },
        buffers.weights, buffers.gradients, buffers.states[0]);
  }

  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    const hlo::Tensor& mean = of.states[0];
    const hlo::Tensor direction = hlo::sign(hlo::moving_mean(mean, of.gradient, beta1_));
    return hlo::RuleResults{.weight = hlo::decayed_weight(of) - of.lr * direction,
                            .states = {hlo::moving_mean(mean, of.gradient, beta2_)}};
  }

 private:
  float beta1_;
  float beta2_;
};

}  // namespace

const ComponentName Lion::kName = {"lion", "Lion", "Steps of one size, by the sign of a mean"};

void Lion::fields(FieldList& field) {
  field("lr", lr, {.min = 0, .open_min = true}, "Learning rate [0.0003]");
  field.by_name();
  field("betas", betas, {.min = 0, .max = 1, .open_max = true},
        "Shares of the mean of gradients: in a step's direction, and in the next mean");
  list_decay_and_groups(field, weight_decay, groups);
}

void Lion::check() const { require(betas.size() == 2, "betas are two, such as [0.9, 0.99]"); }

std::unique_ptr<UpdateRule> Lion::make() const { return std::make_unique<LionRule>(*this); }

}  // namespace millrace::trainer
