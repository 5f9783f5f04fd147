#include "trainer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/detail/bf16.h"

namespace millrace::trainer {
namespace {

constexpr std::array<std::pair<std::string_view, OptimizerKind>, 4> kNames{
    {{"sgd", OptimizerKind::kSgd},
     {"adam", OptimizerKind::kAdam},
     {"adamw", OptimizerKind::kAdamW},
     {"lars", OptimizerKind::kLars}}};

// What is worked on at a time: weights, gradients and two states stay in the first-level cache
// while the bf16 copy is made.
constexpr std::size_t kBlockFloats = 1024;

bool is_adam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

void check_options(const OptimizerOptions& options) {
  require(options.momentum >= 0.0F && options.momentum < 1.0F, "momentum must lie in [0, 1)");
  require(options.weight_decay >= 0.0F, "weight decay must not be negative");
  require(options.beta1 >= 0.0F && options.beta1 < 1.0F && options.beta2 >= 0.0F &&
              options.beta2 < 1.0F,
          "Adam's betas must lie in [0, 1)");
  require(!options.nesterov || (options.momentum > 0.0F && options.dampening == 0.0F),
          "Nesterov needs a momentum and no dampening");
}

std::vector<std::string> names_of_state(const OptimizerOptions& options) {
  if (is_adam(options.kind)) return {"exp_avg", "exp_avg_sq"};
  if (options.momentum > 0.0F) return {"momentum_buffer"};
  return {};
}

}  // namespace

OptimizerKind parse_optimizer_kind(std::string_view name) {
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  throw Error(ErrorCode::kInvalidArgument, "no optimizer is called '" + std::string(name) +
                                               "'; there are sgd, adam, adamw, lars");
}

std::string_view optimizer_kind_name(OptimizerKind kind) {
  return kNames[static_cast<std::size_t>(kind)].first;
}

// One run's numbers, worked out once a pass.
struct Optimizer::Scalars {
  float scale;       // of the gradient
  float decay;       // coupled weight decay
  float shrink;      // AdamW's factor on the weights
  float lr;          // or Adam's step size
  float root_bias2;  // Adam
  float trust;       // LARS
  float gain;        // 1 - dampening
  bool first;
};

Optimizer::Optimizer(const OptimizerOptions& options, const ParameterTable& table)
    : options_(options),
      num_parameters_(table.entries().size()),
      state_names_(names_of_state(options)) {
  check_options(options);
  state_.assign(state_names_.size(), std::vector<float>(table.padded_size()));
  build_runs(table);
}

void Optimizer::build_runs(const ParameterTable& table) {
  const bool apart = options_.kind == OptimizerKind::kLars;
  int index = 0;
  for (const Parameter& entry : table.entries()) {
    const bool decay = entry.decay || !options_.no_decay_on_biases_and_norms;
    const std::size_t end = (entry.offset + entry.size + 15) / 16 * 16;
    if (!apart && !runs_.empty() && runs_.back().decay == decay) {
      runs_.back().range.end = end;
    } else {
      // LARS leaves biases and norms at the plain rate.
      runs_.push_back({{entry.offset, end}, decay, apart && entry.decay ? index : -1});
    }
    ++index;
  }
}

Optimizer::Scalars Optimizer::scalars(const Update& update, const Run& run) const {
  const float decay = run.decay ? options_.weight_decay : 0.0F;
  Scalars s{update.gradient_scale,     decay,           1.0F, update.lr, 1.0F, 1.0F,
            1.0F - options_.dampening, update.step == 1};
  if (options_.kind == OptimizerKind::kLars && run.parameter >= 0) {
    s.trust = update.trust[static_cast<std::size_t>(run.parameter)];
  }
  if (!is_adam(options_.kind)) return s;
  const auto step = static_cast<double>(update.step);
  const double bias1 = 1.0 - std::pow(static_cast<double>(options_.beta1), step);
  const double bias2 = 1.0 - std::pow(static_cast<double>(options_.beta2), step);
  s.lr = static_cast<float>(static_cast<double>(update.lr) / bias1);
  s.root_bias2 = static_cast<float>(std::sqrt(bias2));
  if (options_.kind == OptimizerKind::kAdamW) {
    s.shrink = 1.0F - update.lr * decay;
    s.decay = 0.0F;
  }
  return s;
}

namespace {

struct SgdRule {
  float momentum;
  bool nesterov;
};

// buf may be null: no momentum.
template <typename Scalars>
void sgd(float* w, const float* g, float* buf, std::size_t n, const Scalars& s, SgdRule rule) {
  const float lr = s.lr * s.trust;
  if (buf == nullptr) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= lr * (s.scale * g[i] + s.decay * w[i]);
    return;
  }
  const float keep = s.first ? 0.0F : rule.momentum;
  const float gain = s.first ? 1.0F : s.gain;
  const float along = rule.nesterov ? 1.0F : 0.0F;
  const float of_buf = rule.nesterov ? rule.momentum : 1.0F;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = s.scale * g[i] + s.decay * w[i];
    buf[i] = keep * buf[i] + gain * gradient;
    w[i] -= lr * (along * gradient + of_buf * buf[i]);
  }
}

// You et al.: the rate goes into the momentum buffer, not after it.
template <typename Scalars>
void lars(float* w, const float* g, float* buf, std::size_t n, const Scalars& s, SgdRule rule) {
  const float lr = s.lr * s.trust;
  for (std::size_t i = 0; i < n; ++i) {
    const float move = lr * (s.scale * g[i] + s.decay * w[i]);
    const float smooth = buf == nullptr ? move : rule.momentum * buf[i] + move;
    if (buf != nullptr) buf[i] = smooth;
    w[i] -= smooth;
  }
}

struct AdamRule {
  float beta1;
  float beta2;
  float epsilon;
};

template <typename Scalars>
void adam(float* w, const float* g, float* mean, float* square, std::size_t n, const Scalars& s,
          AdamRule rule) {
  const float fresh1 = 1.0F - rule.beta1;
  const float fresh2 = 1.0F - rule.beta2;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = s.scale * g[i] + s.decay * w[i];
    mean[i] = rule.beta1 * mean[i] + fresh1 * gradient;
    square[i] = rule.beta2 * square[i] + fresh2 * gradient * gradient;
    const float denominator = std::sqrt(square[i]) / s.root_bias2 + rule.epsilon;
    w[i] = s.shrink * w[i] - s.lr * (mean[i] / denominator);
  }
}

}  // namespace

void Optimizer::update_run(const Update& update, const Run& run, Range range) {
  const Scalars s = scalars(update, run);
  const SgdRule sgd_rule{options_.momentum, options_.nesterov};
  for (std::size_t at = range.begin; at < range.end; at += kBlockFloats) {
    const std::size_t n = std::min(kBlockFloats, range.end - at);
    float* const w = update.weights.data() + at;
    const float* const g = update.gradients.data() + at;
    float* const first = state_.empty() ? nullptr : state_[0].data() + at;
    switch (options_.kind) {
      case OptimizerKind::kSgd:
        sgd(w, g, first, n, s, sgd_rule);
        break;
      case OptimizerKind::kLars:
        lars(w, g, first, n, s, sgd_rule);
        break;
      case OptimizerKind::kAdam:
      case OptimizerKind::kAdamW:
        adam(w, g, first, state_[1].data() + at, n, s,
             {options_.beta1, options_.beta2, options_.epsilon});
        break;
    }
    if (options_.round_to_bf16) {
      detail::round_values_to_bf16({w, n});
      for (auto& state : state_) detail::round_values_to_bf16({state.data() + at, n});
    }
    if (!update.bf16_weights.empty()) detail::to_bf16({w, n}, update.bf16_weights.data() + at);
  }
}

void Optimizer::update(const Update& update, Range range) {
  MILLRACE_CHECK(range.end <= update.weights.size(), "range past the end of the weights");
  for (const Run& run : runs_) {
    const Range common{std::max(run.range.begin, range.begin), std::min(run.range.end, range.end)};
    if (common.begin < common.end) update_run(update, run, common);
  }
}

void Optimizer::add_square_sums(const Update& update, Range range, std::span<double> sums) const {
  for (const Run& run : runs_) {
    if (run.parameter < 0) continue;
    double w2 = 0.0;
    double g2 = 0.0;
    const std::size_t end = std::min(run.range.end, range.end);
    for (std::size_t i = std::max(run.range.begin, range.begin); i < end; ++i) {
      const double w = update.weights[i];
      const double g = static_cast<double>(update.gradients[i] * update.gradient_scale);
      w2 += w * w;
      g2 += g * g;
    }
    sums[2 * static_cast<std::size_t>(run.parameter)] += w2;
    sums[2 * static_cast<std::size_t>(run.parameter) + 1] += g2;
  }
}

std::vector<float> Optimizer::trust_ratios(std::span<const double> sums) const {
  std::vector<float> ratios(sums.size() / 2, 1.0F);
  for (const Run& run : runs_) {
    if (run.parameter < 0) continue;
    const auto index = static_cast<std::size_t>(run.parameter);
    const double w = std::sqrt(sums[2 * index]);
    const double g = std::sqrt(sums[2 * index + 1]);
    const double decay = run.decay ? static_cast<double>(options_.weight_decay) : 0.0;
    const double under = g + decay * w;
    if (w > 0.0 && under > 0.0) {
      ratios[index] = static_cast<float>(static_cast<double>(options_.trust) * w / under);
    }
  }
  return ratios;
}

}  // namespace millrace::trainer
