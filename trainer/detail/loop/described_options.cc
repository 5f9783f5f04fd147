#include "trainer/detail/loop/described_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
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
    return fmt::format("{}", value);
  }

  std::vector<Setting>& settings_;
  std::string prefix_;
};

constexpr auto kRun = SettingScope::kRun;
constexpr auto kStart = SettingScope::kStart;

/// What is kept is process 0's decision; how often all of them stop to save is not.
void describe_checkpoints(const CheckpointOptions& options, std::vector<Setting>& settings) {
  const auto& [folder, save_last, save_best, monitor, every_steps, every, top_k] = options;
  Describer(settings, "checkpoint.").add("every_steps", every_steps, kStart);
}

}  // namespace

std::vector<Setting> describe(const TrainOptions& options) {
  const auto& [epochs, precision, seed, optimizer, schedule, schedule_epochs, reducer, scale_lr,
               accumulate, clip, ema_decay, steps_per_epoch, log_steps, epoch_lines, on_non_finite,
               max_time, sanity_val_steps, init, replace_head, checkpoint, run_folder, config_json,
               settings, renew_settings, resume, opener, accept_changed_data, stop, log, trace,
               clock] = options;
  const auto& [bucket_floats] = reducer;
  const auto& [clip_norm, clip_value] = clip;
  const auto& [rule, round_to_bf16] = optimizer;
  std::vector<Setting> all;
  Describer(all, "")
      .add("epochs", epochs, kStart)
      .add("precision", precision == nn::Precision::kFloat32 ? "fp32" : "bf16", kRun)
      .add("seed", seed, kRun)
      .add("reducer.bucket_floats", bucket_floats, kStart)
      .add("optimizer.round_to_bf16", round_to_bf16, kRun)
      .add("schedule_epochs", schedule_epochs > 0 ? schedule_epochs : static_cast<double>(epochs),
           kStart)
      .add("scale_lr", scale_lr, kStart)
      .add("accumulate", accumulate, kStart)
      .add("clip.norm", clip_norm, kStart)
      .add("clip.value", clip_value, kStart)
      .add("ema_decay", ema_decay, kStart)
      .add("steps_per_epoch", steps_per_epoch, kStart)
      .add("on_non_finite", on_non_finite == OnNonFinite::kSkip ? "skip" : "fail", kStart)
      .add("sanity_val_steps", sanity_val_steps, kStart);
  std::ranges::copy(component_settings(rule, "optimizer", kRun, "optimizer"),
                    std::back_inserter(all));
  std::ranges::copy(component_settings(schedule, "schedule", kStart, "schedule"),
                    std::back_inserter(all));
  describe_checkpoints(checkpoint, all);
  return all;
}

}  // namespace millrace::trainer::detail
