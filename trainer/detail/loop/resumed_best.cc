#include "trainer/detail/loop/resumed_best.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "io/base/error.h"
#include "pipeline/data_identity.h"
#include "trainer/detail/loop/checkpoint_keeper.h"
#include "trainer/setting.h"

namespace millrace::trainer::detail {
namespace {

constexpr std::string_view kValidation = "val_";

/// Of the validation set; empty if there is none, or one of the two does not know its set.
std::string set_change(const TrainState& saved, const TrainState& given) {
  if (!saved.validation || !given.validation) return {};
  std::string difference = list_difference(*saved.validation, *given.validation);
  if (difference.empty()) difference = content_difference(*saved.validation, *given.validation);
  if (difference.empty() && !saved.validation->options.empty())
    difference = fmt::format(
        "{}", fmt::join(option_differences(*saved.validation, *given.validation), "; "));
  if (difference.empty()) return {};
  return "the validation set has changed since the checkpoint: " + difference;
}

/// Of what else a measure depends on.
std::string measuring_change(const TrainState& saved, const TrainState& given) {
  std::vector<Setting> now;
  std::ranges::copy_if(given.settings, std::back_inserter(now), &Setting::measures);
  std::vector<Setting> before;
  std::ranges::copy_if(saved.settings, std::back_inserter(before), [&](const Setting& one) {
    return std::ranges::count(now, one.name, &Setting::name) > 0;
  });
  const auto changes = setting_differences(before, "saved", now, "given");
  if (changes.empty()) return {};
  return fmt::format("the validation set is measured otherwise than before: {}",
                     fmt::join(changes, "; "));
}

bool is_measured_on(const TrainState& state) { return state.monitor.starts_with(kValidation); }

/// Whether the run's folder has checkpoints of the best epochs, which later ones would replace or
/// leave without a run that knows them.
bool holds_best(const TrainState& saved, const TrainOptions& options, const io::Opener& opener) {
  const std::string folder = checkpoint_folder(options);
  if (folder.empty()) return false;
  const auto has = [&](const std::string& name) {
    return is_checkpoint(folder + "/" + name, opener);
  };
  return has("best") ||
         std::ranges::any_of(saved.top, [&](const auto& one) { return has(one.first); });
}

[[noreturn]] void refuse_best(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, why, {.url = path, .stage = "checkpoint"});
}

[[noreturn]] void refuse_monitor(const std::string& path, const TrainState& saved,
                                 const TrainState& given) {
  refuse_best(path,
              fmt::format("the best epoch so far is by {}, and this run's would be by {}: "
                          "checkpoints/best would be replaced by one that was not compared with "
                          "it; --monitor {}{} continues it, another --run-dir keeps a best of its "
                          "own",
                          saved.monitor, given.monitor, saved.monitor,
                          is_measured_on(saved) ? " with --val" : ""));
}

[[noreturn]] void refuse_set(const std::string& path, const std::string& change) {
  refuse_best(path,
              change +
                  "; its best epoch cannot be compared with this run's: another --run-dir keeps a "
                  "best of its own, --allow-changed-data replaces it");
}

}  // namespace

void begin_best_anew(TrainState& state, const std::string& why, const Log& log) {
  log.warn(fmt::format("the best epoch begins anew: epoch {}, with {} {:.4g}, {}", state.best_epoch,
                       state.monitor, *state.best, why));
  state.best.reset();
  state.best_epoch = 0;
  state.top.clear();
}

void continue_best(const std::string& path, TrainState& saved, const TrainState& given,
                   const TrainOptions& options, const io::Opener& opener) {
  std::string change = set_change(saved, given);
  if (change.empty()) change = measuring_change(saved, given);
  const bool is_by_other = saved.monitor != given.monitor;
  const bool is_of_other = is_measured_on(saved) && !change.empty();
  const bool ends = saved.best && (is_by_other || is_of_other);
  if (ends && holds_best(saved, options, opener)) {
    if (is_by_other) refuse_monitor(path, saved, given);
    if (!options.accept_changed_data) refuse_set(path, change);
  }
  if (!change.empty()) options.log.warn(change);
  if (ends)
    begin_best_anew(saved,
                    is_by_other ? "was not compared by " + given.monitor : "was measured otherwise",
                    options.log);
}

}  // namespace millrace::trainer::detail
