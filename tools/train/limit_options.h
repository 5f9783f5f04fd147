// LimitOptions: limits of a run, for debugging and for time budgets.
//
// Threads: a value type.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace millrace::trainer {
struct FitResult;
}

namespace millrace::tools {

struct LimitOptions {
  std::int64_t train_batches = 0;
  std::int64_t val_batches = 0;
  std::int64_t overfit_batches = 0;
  std::int64_t sanity_val_steps = 0;
  bool fast_dev_run = false;
  bool deterministic = false;  ///< accepted: every run is
  std::string max_time = {};
  /// In percent of val_top1; 0: none.
  double target_accuracy = 0;

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for limits that contradict each other.
  void check() const;
  /// Applies fast_dev_run and overfit_batches to the other limits.
  void settle();
  /// 0: no limit.
  std::chrono::seconds time_limit() const;
  /// Throws: Exhausted if the best epoch of `result` is below target_accuracy.
  void check_reached(const trainer::FitResult& result) const;
};

}  // namespace millrace::tools
