#include "trainer/detail/loop/old_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer::detail {
namespace {

using Renamed = std::pair<std::string_view, std::string_view>;
constexpr Renamed kRenamed[] = {{"optimizer.rule", "optimizer"},
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

double number_saved(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

Setting* setting_called(std::vector<Setting>& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? nullptr : &*found;
}

bool is_none(std::string_view warmup) { return warmup == "none" || warmup == "0"; }

/// As the run of now says it.
std::string no_warmup(std::span<const Setting> now) {
  const auto found = std::ranges::find(now, "schedule.warmup", &Setting::name);
  return found != now.end() && is_none(found->value) ? found->value : "none";
}

/// "100steps", "5ep", "none" of a warm-up that was a number of either.
void renew_warmup(std::vector<Setting>& settings, std::span<const Setting> now) {
  Setting* epochs = setting_called(settings, "schedule.warmup_epochs");
  const Setting* steps = setting_called(settings, "schedule.warmup_steps");
  if (epochs == nullptr || steps == nullptr) return;
  const double by_epoch = number_saved(epochs->value);
  const double by_step = number_saved(steps->value);
  epochs->name = "schedule.warmup";
  epochs->value = by_step > 0    ? fmt::format("{}steps", by_step)
                  : by_epoch > 0 ? fmt::format("{}ep", by_epoch)
                                 : no_warmup(now);
}

/// warmup-exponential was step with a divisor, and warmed up unless told otherwise.
void renew_schedule(std::vector<Setting>& settings) {
  Setting* schedule = setting_called(settings, "schedule");
  const Setting* divisor = setting_called(settings, "schedule.divisor");
  if (schedule == nullptr || divisor == nullptr || schedule->value != "warmup-exponential") return;
  schedule->value = "step";
  if (Setting* gamma = setting_called(settings, "schedule.gamma"))
    gamma->value = fmt::format("{}", 1.0 / number_saved(divisor->value));
  Setting* warmup = setting_called(settings, "schedule.warmup");
  if (warmup != nullptr && is_none(warmup->value)) warmup->value = "0.9ep";
}

void renew_optimizer(std::vector<Setting>& settings) {
  if (Setting* plain = setting_called(settings, "optimizer.no_decay_on_biases_and_norms")) {
    const std::vector<ParameterGroup> groups = {
        {.parameters = "norms-biases", .weight_decay = 0.0F}};
    plain->name = "optimizer.groups";
    plain->value =
        plain->value == "true"
            ? setting_text(millrace::value_type(groups).write(&groups, ValueType::Form::kWhole))
            : "none";
  }
  Setting* beta1 = setting_called(settings, "optimizer.beta1");
  const Setting* beta2 = setting_called(settings, "optimizer.beta2");
  if (beta1 == nullptr || beta2 == nullptr) return;
  beta1->name = "optimizer.betas";
  beta1->value += "," + beta2->value;
}

}  // namespace

std::span<const Renamed> renamed_settings() { return kRenamed; }

std::vector<Setting> with_new_names(std::vector<Setting> saved, std::span<const Setting> now) {
  if (setting_called(saved, "schedule.by") != nullptr) return saved;  // not of before components
  for (Setting& one : saved) {
    const auto* renamed = std::ranges::find(kRenamed, one.name, &Renamed::first);
    if (renamed != std::end(kRenamed)) one.name = renamed->second;
  }
  renew_warmup(saved, now);
  renew_schedule(saved);
  renew_optimizer(saved);
  return saved;
}

}  // namespace millrace::trainer::detail
