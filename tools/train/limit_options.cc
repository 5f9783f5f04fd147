#include "tools/train/limit_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <optional>

#include "io/base/error.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/values.h"
#include "trainer/fit.h"

namespace millrace::tools {
namespace {

/// val_top1 of the best epoch, as far as one measured it.
std::optional<double> best_accuracy(const trainer::FitResult& result) {
  std::optional<double> best;
  if (result.end.monitor == "val_top1") best = result.end.best;
  for (const trainer::EpochEvent& epoch : result.epochs) {
    const double top1 = trainer::find_value(epoch.val, "top1").value_or(std::nan(""));
    if (std::isfinite(top1)) best = std::max(best.value_or(0.0), top1);
  }
  return best;
}

}  // namespace

void LimitOptions::declare(CLI::App& app) {
  app.option_defaults()->group("Limits and debugging");
  app.add_flag("--fast-dev-run", fast_dev_run,
               "Check all options and run one epoch of one batch; write nothing")
      ->check(of_this_start());
  app.add_option("--overfit-batches", overfit_batches,
                 "Train and evaluate on the same N batches per device, neither shuffled nor "
                 "augmented; 0: off")
      ->transform(whole_number(0));
  app.add_option("--limit-train-batches", train_batches,
                 "Maximum batches per device in an epoch; 0: all")
      ->transform(whole_number(0));
  app.add_option("--limit-val-batches", val_batches,
                 "Maximum batches per device in an evaluation; 0: all")
      ->transform(whole_number(0))
      ->check(may_change());
  app.add_option("--sanity-val-steps", sanity_val_steps,
                 "Batches per device to evaluate before training starts")
      ->transform(whole_number(0))
      ->check(may_change());
  app.add_option(
         "--max-time", max_time,
         "Save a checkpoint and exit with status 0 after this time: 90s, 30m, 12h or HH:MM:SS")
      ->type_name("TIME")
      ->check(may_change());
  app.add_option(
         "--target-accuracy", target_accuracy,
         "val_top1 in percent that the best epoch must reach; below it the exit status is 1")
      ->transform(real_number(0, 100))
      ->check(may_change());
  app.add_flag("--deterministic", deterministic, "nothing changes: every run repeats bit for bit")
      ->group(kHiddenGroup)
      ->check(of_this_start());
}

void LimitOptions::check() const {
  const bool limited = train_batches > 0 || val_batches > 0;
  require(!fast_dev_run || !limited, "--fast-dev-run sets the limits of batches itself");
  require(overfit_batches == 0 || !(limited || fast_dev_run),
          "--overfit-batches sets the limits of batches itself");
  static_cast<void>(time_limit());
}

void LimitOptions::settle() {
  if (fast_dev_run) train_batches = val_batches = 1;
  if (overfit_batches > 0) train_batches = val_batches = overfit_batches;
}

std::chrono::seconds LimitOptions::time_limit() const {
  return max_time.empty() ? std::chrono::seconds(0) : parse_duration("--max-time", max_time);
}

void LimitOptions::check_reached(const trainer::FitResult& result) const {
  if (target_accuracy == 0) return;
  const std::optional<double> best = best_accuracy(result);
  if (best && 100.0 * *best >= target_accuracy) return;
  if (!best)
    throw Error(ErrorCode::kExhausted,
                fmt::format("no evaluation measured an accuracy for --target-accuracy {}",
                            target_accuracy));
  throw Error(ErrorCode::kExhausted,
              fmt::format("the best accuracy, {:.2f} %, is below the {} % of --target-accuracy",
                          100.0 * *best, target_accuracy));
}

}  // namespace millrace::tools
