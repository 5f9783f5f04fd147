// An optimizer's rule of one's own: steps of one size along the sign of the momentum. Source:
// Bernstein and others, "signSGD: compressed optimisation for non-convex problems" (2018), there
// called Signum.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/trainer/update_rule.h"
#include "small_run.h"

namespace mr = millrace::trainer;

class Signum final : public mr::UpdateRule {
 public:
  explicit Signum(const mr::OptimizerOptions& options) : momentum_(options.momentum) {}

  std::vector<std::string> state_names() const override { return {"momentum_buffer"}; }
  void apply(const mr::RuleStep& step, const mr::RuleBuffers& buffers) const override {
    const std::span<float> momentum = buffers.states[0];
    for (std::size_t i = 0; i < buffers.weights.size(); ++i) {
      const float gradient =
          step.gradient_scale * buffers.gradients[i] + step.weight_decay * buffers.weights[i];
      momentum[i] = momentum_ * momentum[i] + (1.0F - momentum_) * gradient;
      const float sign = static_cast<float>((momentum[i] > 0.0F) - (momentum[i] < 0.0F));
      buffers.weights[i] -= step.lr * sign;
    }
  }

 private:
  float momentum_;
};

int main() {
  mr::UpdateRuleTable rules = *mr::standard_update_rules();
  rules.add({.name = "signum",
             .defaults = {.lr = 0.05, .momentum = 0.9F},
             .make = [](const mr::OptimizerOptions& options) -> std::unique_ptr<mr::UpdateRule> {
               return std::make_unique<Signum>(options);
             }});
  const mr::RuleDefaults defaults = rules.at("signum").defaults;
  const auto losses = small_run(
      {.epochs = 6,
       .optimizer = {.rule = "signum",
                     .rules = std::make_shared<const mr::UpdateRuleTable>(std::move(rules)),
                     .momentum = defaults.momentum},
       .schedule = {.base_lr = defaults.lr}});
  std::printf("own rule: loss %.3f in the first epoch, %.3f in the last\n", losses.front(),
              losses.back());
  return losses.size() == 6 && losses.back() < losses.front() / 2 ? 0 : 1;
}
