// FitRun: one call of fit(), from the first check to the end event.
//
// Every process of a run has one, and all go through the same calls. Process 0 reads and writes,
// within Processes::decide(), so that what fails there ends all of them alike.
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
#include "trainer/detail/checkpoint_keeper.h"
#include "trainer/detail/epoch_host.h"
#include "trainer/detail/failure.h"
#include "trainer/detail/processes.h"
#include "trainer/detail/replica_epoch.h"
#include "trainer/detail/replica_evaluate.h"
#include "trainer/detail/replica_group.h"
#include "trainer/detail/run_folder.h"
#include "trainer/detail/run_stop.h"
#include "trainer/detail/run_weights.h"
#include "trainer/fit.h"
#include "trainer/run_lock.h"

namespace millrace::trainer::detail {

class FitRun final : private EpochHost {
 public:
  /// All borrowed; `options` as settle_options() gives them.
  FitRun(Processes& processes, const FitInput& input, const TrainOptions& options,
         const std::vector<Observer*>& observers);

  FitResult run();

 private:
  void start();
  /// What process 0 does at the start: it takes the folder, reads weights or a checkpoint, and
  /// gives the path of the latter.
  std::string open();
  /// Resumes, where that is asked for; gives the checkpoint's path.
  std::string resume();
  void check_folder() const;
  void save_if_behind(const std::string& resumed);
  void run_epochs();
  void run_epoch(std::int64_t epoch);
  EpochContext context_for(std::int64_t epoch, EpochFeed& feed, Failure& input);
  void train(std::int64_t epoch, EpochFeed& feed);
  /// After an epoch that was broken off: throws what an input failed with, unless that was the
  /// stop; else says by what the run is stopped.
  void agree_on_stop(const Failure& input);
  void agree_on_stop();
  bool stop_due() override { return !stop_.reason().empty(); }
  bool checkpoint_due() override { return keeper_.due(); }
  void prepare_checkpoint(Replica& replica) override { weights_.gather(replica); }
  void save_checkpoint() override { save_in_epoch(); }
  void on_step_start(const StepStart& step) override;
  void on_step(const StepEvent& event) override;
  void on_log_step(const StepEvent& event) override;
  std::unique_ptr<EpochFeed> open_epoch(std::int64_t epoch);
  std::string joined_position();
  void save_in_epoch();
  /// What the steps before a failure made, if no replica was changing it, and if all processes came
  /// to it alike: what they would have to send each other is lost otherwise. The shard at `faulty`
  /// may hold something else when the run goes on.
  void save_finished_steps(const std::string& faulty = "");
  void stop_in_epoch();
  void check_sanity();
  /// `max_batches`: a replica's; 0: all. False: a stop ended it.
  bool evaluate(EpochEvent& event, std::int64_t max_batches);
  /// False: a stop ended it, and the epoch's steps are saved.
  bool evaluate_or_stop(EpochEvent& event);
  EpochEvent make_event(std::int64_t epoch, std::int64_t first_step, const EpochFeed& feed);
  void end_epoch(EpochEvent& event);
  void finish();
  /// A run without indexes does not know how short it is.
  void warn_of_warmup() const;
  template <typename Member, typename... Args>
  void tell(Member member, const Args&... args);

  Processes& processes_;
  const FitInput& input_;
  const TrainOptions& options_;
  const RunStop stop_;
  std::vector<Observer*> observers_;
  Schedule schedule_;
  std::int64_t steps_per_epoch_;
  ReplicaGroup group_;
  RunWeights weights_;
  TrainState state_;
  CheckpointKeeper keeper_;
  std::optional<RunLock> lock_;
  std::optional<RunFolder> folder_;
  bool saves_ = false;                          ///< process 0 writes checkpoints
  std::optional<pipeline::Position> position_;  ///< of this process, after what is to be saved
  std::vector<EpochTotals> totals_;  ///< one a replica of this process, of the epoch at hand
  std::int64_t shown_steps_ = 0;
  FitResult result_;
  double samples_ = 0;        ///< trained on in this call, all replicas
  double train_seconds_ = 0;  ///< of this call
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace millrace::trainer::detail
