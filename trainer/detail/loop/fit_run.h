// FitRun: one call of fit(), from the first check to the end event.
//
// Every process of a run has one, and all make the same calls. Process 0 reads and writes, within
// Processes::decide(), so that a fault there is thrown on all of them.
//
// It runs on the caller's thread; replicas run inside ReplicaGroup::run() and are idle between.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/position.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/checkpoint_keeper.h"
#include "trainer/detail/loop/failure.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/detail/loop/replica_epoch.h"
#include "trainer/detail/loop/replica_group.h"
#include "trainer/detail/loop/run_stop.h"
#include "trainer/detail/loop/run_weights.h"
#include "trainer/detail/store/run_folder.h"
#include "trainer/fit.h"
#include "trainer/run_lock.h"

namespace millrace::trainer::detail {

class FitRun final : private EpochHost {
 public:
  /// All borrowed; `options` from settle_options().
  FitRun(Processes& processes, const FitInput& input, const TrainOptions& options,
         const std::vector<Observer*>& observers);

  FitResult run();

 private:
  void start();
  /// What process 0 does at the start: locks the folder, and reads weights or a checkpoint. Returns
  /// the latter's path.
  std::string open();
  /// Resumes, if the options ask for it; returns the checkpoint's path, or else "".
  std::string resume();
  /// Of the ranks of processes other than 0.
  void open_rank_logs();
  void finish_folder();
  void check_folder() const;
  void save_if_behind(const std::string& resumed);
  void run_epochs();
  void run_epoch(std::int64_t epoch);
  EpochContext context_for(std::int64_t epoch, EpochFeed& feed, Failure& input);
  void train(std::int64_t epoch, EpochFeed& feed);
  /// After an epoch that ended early: throws an input's fault, unless that was the stop; otherwise
  /// sets what the run was stopped by.
  void agree_on_stop(const Failure& input);
  void agree_on_stop();
  bool stop_due() override { return !stop_.reason().empty(); }
  bool checkpoint_due() override { return keeper_.due(); }
  void save_checkpoint() override { save_in_epoch(); }
  void on_step_start(const StepStart& step) override;
  void on_step(const StepEvent& event) override;
  void on_log_step(const StepEvent& event) override;
  std::unique_ptr<EpochFeed> open_epoch(std::int64_t epoch);
  std::string joined_position();
  void save_in_epoch();
  /// Saves the state after the last step before a fault, if no replica was changing it and the
  /// fault is on all processes: otherwise they cannot gather it. The shard at `faulty` may have
  /// another content when the run resumes.
  void save_finished_steps(const std::string& faulty = "");
  void stop_in_epoch();
  void check_sanity();
  /// Sets start values that take more of the data than the first step has (start_filters.h), of a
  /// run that has taken none.
  void take_start_values();
  /// `max_batches`: per replica; 0: all. Returns false after a stop.
  bool evaluate(EpochEvent& event, std::int64_t max_batches);
  /// Returns false after a stop; then the epoch's steps are saved.
  bool evaluate_or_stop(EpochEvent& event);
  /// Ends the run, or leaves out the measures, if outputs or the loss were not finite.
  void check_measures(EpochEvent& event);
  /// Does `work`; if it throws, saves the finished steps first.
  template <typename Work>
  void or_save(const Work& work);
  EpochEvent make_event(std::int64_t epoch, std::int64_t first_step, EpochFeed& feed);
  void end_epoch(EpochEvent& event);
  void finish();
  /// Warns if the run ended within its warm-up: without indexes its length is unknown before.
  void warn_of_warmup() const;
  /// A line of the run's progress, if they are wanted.
  void say(const std::string& line) const;
  template <typename Member, typename... Args>
  void tell(Member member, const Args&... args);

  Processes& processes_;
  const FitInput& input_;
  const TrainOptions& options_;
  const RunStop stop_;
  const std::shared_ptr<const io::Opener> opener_;  ///< of what is at urls
  std::vector<Observer*> observers_;
  Schedule schedule_;
  std::int64_t steps_per_epoch_;
  ReplicaGroup group_;
  RunWeights weights_;
  TrainState state_;
  std::optional<RunLock> lock_;  ///< before what writes: released after it
  CheckpointKeeper keeper_;
  std::optional<RunFolder> folder_;
  bool saves_ = false;               ///< process 0 writes checkpoints
  std::vector<EpochTotals> totals_;  ///< of the current epoch, one per replica of this process
  std::int64_t shown_steps_ = 0;
  FitResult result_;
  double samples_ = 0;        ///< trained on in this call, all replicas
  double train_seconds_ = 0;  ///< of this call
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace millrace::trainer::detail
