// FitRun: one call of fit(), from the first check to the end event.
//
// It runs on the caller's thread; replicas run inside ReplicaGroup::run() and are idle between.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/detail/replica_epoch.h"
#include "trainer/detail/replica_group.h"
#include "trainer/detail/run_folder.h"
#include "trainer/fit.h"

namespace millrace::trainer::detail {

class FitRun {
 public:
  FitRun(const FitInput& input, const TrainOptions& options,
         const std::vector<Observer*>& observers);

  FitResult run();

 private:
  void start();
  void resume(const std::string& path);
  void run_epoch(std::int64_t epoch);
  std::vector<EpochTotals> train(std::int64_t epoch, EpochFeed& feed);
  void stop_in_epoch(const std::vector<EpochTotals>& totals);
  void evaluate(EpochEvent& event);
  void evaluate_or_stop(EpochEvent& event, const std::vector<EpochTotals>& totals);
  EpochEvent make_event(std::int64_t epoch, const std::vector<EpochTotals>& totals,
                        const EpochFeed& feed) const;
  bool is_best(const EpochEvent& event);
  void save(const std::string& name);
  void end_epoch(EpochEvent& event);
  void finish();
  template <typename Member, typename... Args>
  void tell(Member member, const Args&... args);
  CheckpointTensors tensors();

  const FitInput& input_;
  const TrainOptions& options_;
  std::vector<Observer*> observers_;
  Schedule schedule_;
  Optimizer optimizer_;
  std::int64_t steps_per_epoch_;
  std::string monitor_;
  std::string checkpoint_folder_;
  ReplicaGroup group_;
  std::optional<RunFolder> folder_;
  TrainState state_;
  FitResult result_;
  double samples_ = 0;        ///< trained on in this call, all replicas
  double train_seconds_ = 0;  ///< of this call
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace millrace::trainer::detail
