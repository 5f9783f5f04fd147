// FitRun: one call of fit(), from the first check to the end event.
//
// Every process of a run has one, and all make the same calls. It owns what the run's parts share
// (run_parts.h), and calls them in order: what a checkpoint or a file gave (RunSaves), then epochs
// of training (EpochTraining) and evaluation (RunEvaluation), then the end event.
//
// It runs on the caller's thread; replicas run inside ReplicaGroup::run() and are idle between.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "trainer/detail/loop/epoch_training.h"
#include "trainer/detail/loop/run_evaluation.h"
#include "trainer/detail/loop/run_parts.h"
#include "trainer/detail/loop/run_saves.h"
#include "trainer/fit.h"

namespace millrace::trainer::detail {

class FitRun {
 public:
  /// All borrowed; `options` from settle_options().
  FitRun(Processes& processes, const FitInput& input, const TrainOptions& options,
         const std::vector<Observer*>& observers);

  FitResult run();

 private:
  void start();
  /// Sets start values that take more of the data than the first step has (start_filters.h), of a
  /// run that has taken none.
  void take_start_values();
  void run_in_place();
  void run_epochs();
  void run_epoch(std::int64_t epoch);
  /// Returns false after a stop; then the epoch's steps are saved.
  bool evaluate(EpochEvent& event);
  /// Does `work`; if it throws, saves the finished steps first.
  template <typename Work>
  void or_save(const Work& work);
  void end_epoch(EpochEvent& event);
  void finish();
  /// Tells of the fault that ends the run.
  void record(const std::exception& fault) const;
  /// Warns if the run ended within its warm-up: without indexes its length is unknown before.
  void warn_of_warmup() const;
  /// Warns if what was monitored was never defined.
  void warn_of_no_best() const;

  RunStop stop_;
  const std::shared_ptr<const io::Opener> opener_;  ///< of what is at urls
  RunOutput output_;  ///< before saves_: has the lock, which is released last
  Schedule schedule_;
  const std::int64_t steps_per_epoch_;
  ReplicaGroup group_;
  RunWeights weights_;
  const RunParts run_;
  RunSaves saves_;
  EpochTraining training_;
  RunEvaluation evaluation_;
  FitResult result_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point epoch_begin_;
};

}  // namespace millrace::trainer::detail
