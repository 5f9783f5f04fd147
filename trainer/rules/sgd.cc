#include "trainer/rules/sgd.h"

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer {
namespace {

class SgdRule final : public UpdateRule {
 public:
  explicit SgdRule(const Sgd& options)
      : UpdateRule(
            {.lr = options.lr,
             .weight_decay = options.weight_decay,
             .groups = options.groups,
             .usual = {.lr = 0.1, .lr_without_norms = 0.05, .lr_batch = 128, .warmup_steps = 100}}),
        momentum_(options.momentum),
        gain_(1.0F - options.dampening),
        nesterov_(options.nesterov) {}

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

  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    const hlo::Tensor gradient = hlo::decayed_gradient(of);
    if (of.states.empty()) return hlo::RuleResults{.weight = of.weight - of.lr * gradient};
    const auto momentum = static_cast<double>(momentum_);
    const hlo::Tensor added = gain_ == 1.0F ? gradient : gain_at(of.step) * gradient;
    const hlo::Tensor next = of.states[0] * momentum + added;
    const hlo::Tensor move = nesterov_ ? gradient + next * momentum : next;
    return hlo::RuleResults{.weight = of.weight - of.lr * move, .states = {next}};
  }

 private:
  /// Of the buffer: all of the first gradient, without dampening.
  hlo::Tensor gain_at(const hlo::Tensor& step) const {
    return hlo::select(hlo::compare(step, hlo::Order::kEqual, 1.0), hlo::scalar(*step.builder, 1.0),
                       static_cast<double>(gain_));
  }

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

const ComponentName Sgd::kName = {"sgd", "SGD", "Steps along the gradient, with momentum"};

void Sgd::fields(FieldList& field) {
  field("lr", lr, {.min = 0, .open_min = true},
        "Learning rate [0.1, without batch norms 0.05; less below 128 samples per step]");
  field("momentum", momentum, {.min = 0, .max = 1, .open_max = true}, "Momentum");
  field.by_name();
  field("dampening", dampening, {.min = 0, .max = 1}, "Dampening of the momentum");
  field("nesterov", nesterov, "Nesterov's momentum");
  list_decay_and_groups(field, weight_decay, groups);
}

void Sgd::check() const {
  require(!nesterov || (momentum > 0.0F && dampening == 0.0F),
          "nesterov needs a momentum and no dampening");
}

std::unique_ptr<UpdateRule> Sgd::make() const { return std::make_unique<SgdRule>(*this); }

}  // namespace millrace::trainer
