#include "trainer/detail/loop/old_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::trainer::detail {
namespace {

double number_saved(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

/// Names of before components: `millrace train`'s options, then the fields of TrainOptions.
using Renamed = std::pair<std::string_view, std::string_view>;
constexpr Renamed kRenamed[] = {{"--lr", "--optimizer.lr"},
                                {"--momentum", "--optimizer.momentum"},
                                {"--dampening", "--optimizer.dampening"},
                                {"--nesterov", "--optimizer.nesterov"},
                                {"--betas", "--optimizer.betas"},
                                {"--epsilon", "--optimizer.eps"},
                                {"--trust", "--optimizer.trust"},
                                {"--weight-decay", "--optimizer.weight-decay"},
                                {"--schedule-unit", "--schedule.by"},
                                {"--step-epochs", "--schedule.every"},
                                {"--gamma", "--schedule.gamma"},
                                {"--milestones", "--schedule.milestones"},
                                {"--min-lr", "--schedule.to"},
                                {"--warmup-start", "--schedule.warmup-start"},
                                {"optimizer.rule", "optimizer"},
                                {"optimizer.epsilon", "optimizer.eps"},
                                {"schedule.kind", "schedule"},
                                {"schedule.base_lr", "optimizer.lr"},
                                {"schedule.epochs", "schedule_epochs"},
                                {"schedule.unit", "schedule.by"},
                                {"schedule.step_epochs", "schedule.every"},
                                {"schedule.min_lr", "schedule.to"},
                                {"schedule.one_cycle_rise", "schedule.rise"},
                                {"schedule.one_cycle_start_div", "schedule.start_div"},
                                {"schedule.one_cycle_end_div", "schedule.end_div"}};

/// Options that have another name now, if the run of now has it.
constexpr Renamed kRenamedAlone[] = {{"--passes", "--repeat"},
                                     {"--stem", "--model.stem"},
                                     {"--label-smoothing", "--task.label-smoothing"},
                                     {"--label-key", "--task.label-key"},
                                     {"--mask-loss", "--task.mask-loss"},
                                     {"--depth-loss", "--task.depth-loss"},
                                     {"--loss-weights", "--task.loss-weights"},
                                     {"--mask-value", "--task.mask-value"},
                                     {"--mask-field", "--task.mask-field"},
                                     {"--depth-field", "--task.depth-field"},
                                     {"--ignore-index", "--task.ignore-index"},
                                     {"--class-weights", "--task.class-weights"},
                                     {"--mask-colors", "--task.colors"}};

/// Settings of before components whose values were written otherwise, by the names of one program.
struct OldNames {
  std::string_view by;  ///< what all schedules have now
  std::string_view warmup_epochs, warmup_steps, warmup;
  std::string_view plain_norms, groups;
  std::string_view schedule, divisor, gamma;
  std::string_view beta1, beta2, betas;
};
constexpr OldNames kOldNames[] = {{.by = "--schedule.by",
                                   .warmup_epochs = "--warmup-epochs",
                                   .warmup_steps = "--warmup-steps",
                                   .warmup = "--schedule.warmup",
                                   .plain_norms = "--no-decay-norms-biases",
                                   .groups = "--optimizer.groups",
                                   .schedule = "--schedule",
                                   .divisor = "--divisor",
                                   .gamma = "--schedule.gamma",
                                   .beta1 = {},
                                   .beta2 = {},
                                   .betas = {}},
                                  {.by = "schedule.by",
                                   .warmup_epochs = "schedule.warmup_epochs",
                                   .warmup_steps = "schedule.warmup_steps",
                                   .warmup = "schedule.warmup",
                                   .plain_norms = "optimizer.no_decay_on_biases_and_norms",
                                   .groups = "optimizer.groups",
                                   .schedule = "schedule",
                                   .divisor = "schedule.divisor",
                                   .gamma = "schedule.gamma",
                                   .beta1 = "optimizer.beta1",
                                   .beta2 = "optimizer.beta2",
                                   .betas = "optimizer.betas"}};

Setting* setting_called(std::vector<Setting>& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return name.empty() || found == settings.end() ? nullptr : &*found;
}

/// As the run of now says it.
std::string no_warmup(std::span<const Setting> now, const OldNames& names) {
  const auto found = std::ranges::find(now, names.warmup, &Setting::name);
  return found != now.end() && found->value == "none" ? "none" : "0";
}

/// "100steps", "5ep", "0" of a warm-up that was a number of either.
void renew_warmup(std::vector<Setting>& settings, std::span<const Setting> now,
                  const OldNames& names) {
  Setting* epochs = setting_called(settings, names.warmup_epochs);
  Setting* steps = setting_called(settings, names.warmup_steps);
  if (epochs == nullptr || steps == nullptr) return;
  const double by_epoch = number_saved(epochs->value);
  const double by_step = number_saved(steps->value);
  epochs->name = names.warmup;
  epochs->is_given = epochs->is_given || steps->is_given;
  epochs->value = by_step > 0    ? fmt::format("{}steps", by_step)
                  : by_epoch > 0 ? fmt::format("{}ep", by_epoch)
                                 : no_warmup(now, names);
}

/// warmup-exponential was step with a divisor, and warmed up unless told otherwise.
void renew_schedule(std::vector<Setting>& settings, const OldNames& names) {
  Setting* schedule = setting_called(settings, names.schedule);
  const Setting* divisor = setting_called(settings, names.divisor);
  if (schedule == nullptr || divisor == nullptr || schedule->value != "warmup-exponential") return;
  schedule->value = "step";
  if (Setting* gamma = setting_called(settings, names.gamma))
    gamma->value = fmt::format("{}", 1.0 / number_saved(divisor->value));
  if (Setting* warmup = setting_called(settings, names.warmup);
      warmup != nullptr && (warmup->value == "0" || warmup->value == "none"))
    warmup->value = "0.9ep";
}

void renew_optimizer(std::vector<Setting>& settings, const OldNames& names) {
  if (Setting* plain = setting_called(settings, names.plain_norms)) {
    plain->name = names.groups;
    plain->value =
        plain->value == "true" ? "group(parameters=norms-biases, rate=1, weight_decay=0)" : "none";
  }
  Setting* beta1 = setting_called(settings, names.beta1);
  const Setting* beta2 = setting_called(settings, names.beta2);
  if (beta1 == nullptr || beta2 == nullptr) return;
  beta1->name = names.betas;
  beta1->value += "," + beta2->value;
}

/// --drop-last and --partial are two values of --uneven.
void renew_uneven(std::vector<Setting>& settings) {
  Setting* uneven = setting_called(settings, "--uneven");
  for (const std::string_view value : {"drop-last", "partial"}) {
    const Setting* flag = setting_called(settings, fmt::format("--{}", value));
    if (flag == nullptr) continue;
    if (uneven != nullptr && flag->value == "true")
      *uneven = {.name = "--uneven",
                 .value = value == "partial" ? "partial" : "drop",
                 .scope = uneven->scope,
                 .is_given = flag->is_given};
  }
  std::erase_if(settings, [](const Setting& one) {
    return one.name == "--drop-last" || one.name == "--partial";
  });
}

bool has_setting(std::span<const Setting> settings, std::string_view name) {
  return std::ranges::find(settings, name, &Setting::name) != settings.end();
}

/// Whether the names with and without dashes are meant.
bool is_option(std::string_view name) { return name.starts_with("--"); }

}  // namespace

std::vector<Setting> with_new_names(std::vector<Setting> saved, std::span<const Setting> now) {
  for (const OldNames& names : kOldNames) {
    if (!has_setting(now, names.by) || has_setting(saved, names.by)) continue;
    for (Setting& one : saved) {
      const auto* renamed = std::ranges::find(kRenamed, one.name, &Renamed::first);
      if (renamed != std::end(kRenamed) && is_option(one.name) == is_option(names.by))
        one.name = renamed->second;
    }
    renew_warmup(saved, now, names);
    renew_schedule(saved, names);
    renew_optimizer(saved, names);
  }
  for (Setting& one : saved)
    for (const auto& [before, name] : kRenamedAlone)
      if (one.name == before && has_setting(now, name)) one.name = name;
  renew_uneven(saved);
  return saved;
}

}  // namespace millrace::trainer::detail
