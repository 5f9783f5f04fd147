// An optimizer's rule of one's own: steps of one size along the sign of the momentum. Source:
// Bernstein and others, "signSGD: compressed optimisation for non-convex problems" (2018), there
// called Signum.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/io/component/component_text.h"
#include "millrace/trainer/update_rule.h"
#include "small_run.h"

namespace mr = millrace::trainer;

class SignumRule final : public mr::UpdateRule {
 public:
  explicit SignumRule(float momentum, mr::RuleSettings settings)
      : UpdateRule(std::move(settings)), momentum_(momentum) {}

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

struct Signum {
  std::optional<double> lr = {};
  float momentum = 0.9F;
  float weight_decay = 0.0F;
  std::vector<mr::ParameterGroup> groups = {};

  static constexpr millrace::ComponentName kName = {"signum", "Signum", "Steps of one size"};
  void fields(millrace::FieldList& field) {
    field("lr", lr, {.min = 0, .open_min = true}, "Learning rate [0.05]");
    field("momentum", momentum, {.min = 0, .max = 1, .open_max = true}, "Momentum");
    mr::list_decay_and_groups(field, weight_decay, groups);
  }
  std::unique_ptr<mr::UpdateRule> make() const {
    return std::make_unique<SignumRule>(
        momentum,
        mr::RuleSettings{
            .lr = lr, .weight_decay = weight_decay, .groups = groups, .usual = {.lr = 0.05}});
  }
};

int main() {
  auto rules = mr::standard_rules();
  rules.add<Signum>();
  const mr::Rule rule = millrace::parse("signum(momentum=0.8)", rules).front();
  const auto losses = small_run({.epochs = 6, .optimizer = {.rule = rule}});
  std::printf("own rule: loss %.3f in the first epoch, %.3f in the last\n", losses.front(),
              losses.back());
  return losses.size() == 6 && losses.back() < losses.front() / 2 ? 0 : 1;
}
