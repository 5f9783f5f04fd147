// ReplicaEpoch: one replica's part of one epoch of training, step by step.
//
// Every replica makes the same collective calls in the same order: whatever only one of them knows
// (it has a batch, a stop was requested, a checkpoint is due) is put to the vote that begins each
// micro-batch. The vote also keeps a fast replica from reading weights that a slow one still
// updates. A replica whose input ends before another's takes part in the remaining steps without a
// sample.
//
// What came of a step (its loss, whether it was finite) is reported when the backend knows it: at
// once, or, if its steps run ahead of the host, after the next step has begun on the device; before
// a checkpoint and at the epoch's end it is waited for.
//
// A fault of the input is voted on too: every replica ends after the same step, with weights that
// can be saved. The unfinished step's changes to the buffers are undone.
//
// Threads: the replica's device's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "trainer/detail/loop/failure.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/detail/loop/replica.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/meter.h"
#include "trainer/schedule.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// The run that an epoch of training belongs to, as the epoch's replicas call it. Threads: all on
/// the thread of the process's first replica, except on_log_step(), which every replica calls on
/// its own.
class EpochHost {
 public:
  virtual ~EpochHost() = default;

  /// Whether this process wants the run to end after the current step. Called before every
  /// micro-batch, in every process; one of them suffices.
  virtual bool stop_due() = 0;
  /// Whether a checkpoint is due; true once for each. Called likewise, in process 0.
  virtual bool checkpoint_due() = 0;
  /// Saves a checkpoint after the last step, in every process at once. All replicas wait meanwhile,
  /// and their totals are up to date.
  virtual void save_checkpoint() = 0;

  /// Before every step, after its first batch has arrived; from rank 0.
  virtual void on_step_start(const StepStart& step) = 0;
  /// After every step, when its outcome is known; from rank 0.
  virtual void on_step(const StepEvent& event) = 0;
  /// After every log_steps-th step, from every replica.
  virtual void on_log_step(const StepEvent& event) = 0;
};

/// A replica's totals of an epoch so far.
struct EpochTotals {
  /// Over all replicas: the objective's sums, then the number of valid samples.
  std::vector<double> sums = {};
  std::int64_t replica_samples = 0;
  std::int64_t steps = 0;  ///< of the epoch, including those before a resume
  std::int64_t global_step = 0;
  std::int64_t skipped_steps = 0;   ///< not finite; they count as steps
  double skipped_step_samples = 0;  ///< valid ones of these, of all replicas
  /// Over the whole run, as StepNumbers::skipped.
  std::int64_t skipped_updates = 0;
  bool stopped = false;  ///< before the epoch's end
  /// Whether weights and buffers are those after `steps`: false while a step changes them.
  bool whole = true;
  std::int64_t batch_size = 0;
  StepTimes times = {};
  StepTimes first_times = {};  ///< of the first step
  double seconds = 0;
  /// After this replica's last batch of a finished step.
  std::shared_ptr<const pipeline::Position> position = {};
};

/// What all replicas share in an epoch.
struct EpochContext {
  const TrainOptions& options;
  const Schedule& schedule;
  EpochFeed& feed;
  Failure& input_failure;  ///< keeps what feed.next() throws, and stops the feed
  EpochHost& host;
  Topology topology;
  std::int64_t batch_size = 0;       ///< of a replica; 0: what each batch has
  std::int64_t epoch = 0;            ///< from 0
  std::int64_t first_step = 0;       ///< steps already taken in this epoch (resumed)
  std::int64_t global_step = 0;      ///< steps taken before this epoch's first one here
  std::int64_t skipped_updates = 0;  ///< of these, those that changed nothing
  bool starts_from_data = false;     ///< the first step sets start values (start_filters.h)
  std::int64_t steps_per_epoch = 0;
  std::int64_t shown_steps = 0;         ///< for people: steps_per_epoch, or the last epoch's steps
  std::vector<double> first_sums = {};  ///< of the steps already taken; empty: zeros
  std::span<EpochTotals> totals;        ///< one per replica of this process
};

class ReplicaEpoch {
 public:
  /// `context` and `replica` are borrowed.
  ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device);

  /// Trains the epoch; context.totals has the result, also after an exception.
  void run();

 private:
  void take_steps();
  bool next_micro_batch();
  bool vote();
  nn::BatchKey random_key() const;
  /// Of the batch that there is.
  pipeline::SlotNumbers own_slots() const;
  void tell_start();
  void add_micro_batch();
  /// Before the run's first step.
  void start_from_data();
  bool is_full() const { return micro_batches_ == context_.options.accumulate; }
  void finish_step();
  void count_step();
  /// The step that comes next: a trace may be of some steps alone.
  void trace_from(std::int64_t step) const;
  void settle(std::size_t left);
  void settle_one();
  void abandon();
  bool fails_on_non_finite() const;
  void refuse_non_finite(const StepEvent& step, double loss);
  void checkpoint_if_due();
  void report(StepEvent& event, const StepOutcome& outcome);
  void take_over(const StepOutcome& outcome);
  float learning_rate() const;
  double mean_loss(const StepOutcome& last) const;

  const EpochContext& context_;
  Replica& replica_;
  ReplicaStep& step_;
  std::string device_;
  EpochTotals& totals_;
  RateMeter rate_;
  RateMeter all_rate_;  ///< of all replicas
  ReplicaInput input_;
  SkipLimit limit_;
  MicroBatch micro_;
  std::int64_t micro_batches_ = 0;                           ///< of the current step; likewise:
  std::int64_t samples_ = 0;                                 ///< valid ones, of this replica
  std::int64_t bytes_ = 0;                                   ///< of this replica's batches
  std::shared_ptr<const pipeline::Position> position_ = {};  ///< after the last batch
  std::deque<StepEvent> pending_;  ///< applied steps whose outcomes are not known yet
  bool stop_ = false;
  bool input_failed_ = false;
  bool checkpoint_due_ = false;
};

}  // namespace millrace::trainer::detail
