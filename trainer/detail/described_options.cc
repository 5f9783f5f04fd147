#include "trainer/detail/described_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <type_traits>
#include <utility>

namespace millrace::trainer::detail {
namespace {

/// Gathers settings whose names begin alike.
class Describer {
 public:
  Describer(std::vector<Setting>& settings, std::string prefix)
      : settings_(settings), prefix_(std::move(prefix)) {}

  template <typename Value>
  Describer& add(const char* name, const Value& value, SettingScope scope) {
    settings_.push_back({.name = prefix_ + name, .value = text(value), .scope = scope});
    return *this;
  }

 private:
  template <typename Value>
  static std::string text(const Value& value) {
    if constexpr (std::is_same_v<Value, std::vector<double>>)
      return fmt::format("{}", fmt::join(value, ","));
    else
      return fmt::format("{}", value);
  }

  std::vector<Setting>& settings_;
  std::string prefix_;
};

constexpr auto kRun = SettingScope::kRun;
constexpr auto kStart = SettingScope::kStart;

void describe(const OptimizerOptions& options, std::vector<Setting>& settings) {
  const auto& [rule, rules, momentum, dampening, nesterov, weight_decay, beta1, beta2, epsilon,
               trust, no_decay, round_to_bf16] = options;
  Describer(settings, "optimizer.")
      .add("rule", rule, kRun)
      .add("momentum", momentum, kStart)
      .add("dampening", dampening, kStart)
      .add("nesterov", nesterov, kStart)
      .add("weight_decay", weight_decay, kStart)
      .add("beta1", beta1, kStart)
      .add("beta2", beta2, kStart)
      .add("epsilon", epsilon, kStart)
      .add("trust", trust, kStart)
      .add("no_decay_on_biases_and_norms", no_decay, kStart)
      .add("round_to_bf16", round_to_bf16, kRun);
}

void describe(const ScheduleOptions& options, std::vector<Setting>& settings) {
  const auto& [kind, unit, base_lr, epochs, step_epochs, gamma, milestones, divisor, warmup_epochs,
               warmup_steps, warmup_start, min_lr, rise, start_div, end_div] = options;
  Describer(settings, "schedule.")
      .add("kind", schedule_kind_name(kind), kStart)
      .add("unit", unit == ScheduleUnit::kStep ? "step" : "epoch", kStart)
      .add("base_lr", base_lr, kStart)
      .add("epochs", epochs, kStart)
      .add("step_epochs", step_epochs, kStart)
      .add("gamma", gamma, kStart)
      .add("milestones", milestones, kStart)
      .add("divisor", divisor, kStart)
      .add("warmup_epochs", warmup_epochs, kStart)
      .add("warmup_steps", warmup_steps, kStart)
      .add("warmup_start", warmup_start, kStart)
      .add("min_lr", min_lr, kStart)
      .add("one_cycle_rise", rise, kStart)
      .add("one_cycle_start_div", start_div, kStart)
      .add("one_cycle_end_div", end_div, kStart);
}

/// What is kept is process 0's decision; how often all of them stop to save is not.
void describe(const CheckpointOptions& options, std::vector<Setting>& settings) {
  const auto& [folder, save_last, save_best, monitor, every_steps, every, top_k] = options;
  Describer(settings, "checkpoint.").add("every_steps", every_steps, kStart);
}

}  // namespace

std::vector<Setting> describe(const TrainOptions& options) {
  const auto& [epochs, precision, seed, optimizer, schedule, reducer, scale_lr, accumulate, clip,
               ema_decay, steps_per_epoch, log_steps, epoch_lines, on_non_finite, max_time,
               sanity_val_steps, init, replace_head, checkpoint, run_folder, config_json, settings,
               resume, opener, accept_changed_data, stop, log, clock] = options;
  const auto& [bucket_floats] = reducer;
  const auto& [clip_norm, clip_value] = clip;
  std::vector<Setting> all;
  Describer(all, "")
      .add("epochs", epochs, kStart)
      .add("precision", precision == nn::Precision::kFloat32 ? "fp32" : "bf16", kRun)
      .add("seed", seed, kRun)
      .add("reducer.bucket_floats", bucket_floats, kStart)
      .add("scale_lr", scale_lr, kStart)
      .add("accumulate", accumulate, kStart)
      .add("clip.norm", clip_norm, kStart)
      .add("clip.value", clip_value, kStart)
      .add("ema_decay", ema_decay, kStart)
      .add("steps_per_epoch", steps_per_epoch, kStart)
      .add("on_non_finite", on_non_finite == OnNonFinite::kSkip ? "skip" : "fail", kStart)
      .add("sanity_val_steps", sanity_val_steps, kStart);
  describe(optimizer, all);
  describe(schedule, all);
  describe(checkpoint, all);
  return all;
}

}  // namespace millrace::trainer::detail
