#include "trainer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/detail/flat_math.h"
#include "trainer/matrix_rule.h"

namespace millrace::trainer {
namespace {

// Floats that are updated and then rounded at a time: weights, gradients and two states stay in the
// second-level cache.
constexpr std::size_t kRoundedFloats = 8192;

Range common_part(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// A range of the buffers, as a rule takes it.
class RangeBuffers {
 public:
  RangeBuffers(const Update& update, Range range)
      : weights_(update.weights.subspan(range.begin, range.size())),
        gradients_(update.gradients.subspan(range.begin, range.size())) {
    for (const auto& state : update.states)
      states_.push_back(state.subspan(range.begin, range.size()));
  }

  RuleBuffers of_rule() const {
    return {.weights = weights_, .gradients = gradients_, .states = states_};
  }

 private:
  std::span<float> weights_;
  std::span<const float> gradients_;
  std::vector<std::span<float>> states_;
};

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const ParameterTable& table)
    : options_(options), rule_(options.rule.make()), state_names_(rule_->state_names()) {
  if (dynamic_cast<const MatrixRule*>(rule_.get()) != nullptr)
    throw Error(ErrorCode::kUnsupported,
                "the optimizer " + std::string(options.rule.type().name().word) +
                    " changes matrices as a whole, which this backend's updates do not");
  if (rule_->uses_norms()) num_square_sums_ = 2 * table.entries().size();
  build_runs(table);
}

void Optimizer::build_runs(const ParameterTable& table) {
  const bool apart = rule_->uses_norms();
  int index = 0;
  for (const Parameter& entry : table.entries()) {
    const ParameterSettings settings = settings_for(entry, rule_->settings());
    const std::size_t end = (entry.offset + entry.size + 15) / 16 * 16;
    if (!apart && !runs_.empty() && runs_.back().settings == settings) {
      runs_.back().range.end = end;
    } else {
      // Biases and norms keep the plain rate.
      runs_.push_back({{entry.offset, end}, settings, apart && entry.decay ? index : -1});
    }
    if (entry.bounds)
      bounded_.push_back({{entry.offset, entry.offset + entry.size}, *entry.bounds});
    ++index;
  }
}

RuleStep step_of(const Update& update, const ParameterSettings& settings) {
  return {.lr = settings.lr_at({.lr = update.lr, .step = update.step, .base_lr = update.base_lr}),
          .gradient_scale = update.gradient_scale,
          .weight_decay = settings.weight_decay,
          .step = update.step - update.skipped};
}

RuleStep Optimizer::scaled_step_of(const Update& update, const Run& run) const {
  RuleStep step = step_of(update, run.settings);
  if (run.parameter < 0) return step;
  const std::size_t at = 2 * static_cast<std::size_t>(run.parameter);
  step.lr *= rule_->rate_factor({.weights = std::sqrt(update.square_sums[at]),
                                 .direction = std::sqrt(update.square_sums[at + 1]),
                                 .weight_decay = static_cast<double>(step.weight_decay)});
  return step;
}

void Optimizer::apply(const Update& update, const RuleStep& step, Range range) const {
  const RangeBuffers buffers(update, range);
  rule_->apply(step, buffers.of_rule());
  if (!options_.round_to_bf16) return;
  flat::round_to_bf16(buffers.of_rule().weights);
  for (const std::span<float> state : buffers.of_rule().states) flat::round_to_bf16(state);
}

void Optimizer::update(const Update& update, Range range) const {
  MILLRACE_CHECK(range.end <= update.weights.size(), "range past the end of the weights");
  MILLRACE_CHECK(update.states.size() == state_names_.size(), "one state per name of the rule");
  MILLRACE_CHECK(update.square_sums.size() == num_square_sums_, "square sums: as many as needed");
  for (const Run& run : runs_) {
    const Range common = common_part(run.range, range);
    if (common.begin >= common.end || run.settings.is_over(update.step)) continue;
    const RuleStep step = scaled_step_of(update, run);
    const std::size_t block = options_.round_to_bf16 ? kRoundedFloats : common.size();
    for (std::size_t at = common.begin; at < common.end; at += block) {
      apply(update, step, {at, std::min(common.end, at + block)});
    }
  }
  keep_bounds(update, range);
}

void Optimizer::keep_bounds(const Update& update, Range range) const {
  for (const Bounded& one : bounded_) {
    const Range common = common_part(one.range, range);
    for (std::size_t i = common.begin; i < common.end; ++i)
      update.weights[i] = std::clamp(update.weights[i], one.bounds.least, one.bounds.most);
  }
}

void Optimizer::add_square_sums(const Update& update, Range range, std::span<double> sums) const {
  MILLRACE_CHECK(num_square_sums_ == 0 || update.states.size() == state_names_.size(),
                 "one state per name of the rule");
  for (const Run& run : runs_) {
    const Range common = common_part(run.range, range);
    if (run.parameter < 0 || common.begin >= common.end) continue;
    const std::size_t at = 2 * static_cast<std::size_t>(run.parameter);
    sums[at] += flat::square_sum(update.weights.subspan(common.begin, common.size()));
    sums[at + 1] +=
        rule_->square_sum(step_of(update, run.settings), RangeBuffers(update, common).of_rule());
  }
}

}  // namespace millrace::trainer
