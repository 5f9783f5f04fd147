// ReplicaEpoch: one replica's way through one epoch of training, step by step.
//
// Every replica makes the same collective calls in the same order: whatever only one of them knows
// (its batch has come, somebody asked to stop, it is time for a checkpoint) is put to the vote that
// begins each micro-batch. The vote also keeps a fast replica from reading weights that a slow one
// still updates. A replica whose input ends before another's takes part in the steps that are left
// with no sample.
//
// Whether a step was finite is asked a step later, so that nobody waits for the device; before a
// checkpoint and at the end it is asked at once.
//
// A fault of the input is voted on too: every replica ends at the same step, with weights that a
// checkpoint may hold. What the broken step did to the buffers is taken back.
//
// Threads: the replica's device's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "trainer/detail/epoch_host.h"
#include "trainer/detail/failure.h"
#include "trainer/detail/replica.h"
#include "trainer/detail/replica_input.h"
#include "trainer/detail/step_timer.h"
#include "trainer/detail/train_step.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/meter.h"
#include "trainer/schedule.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// What a replica has done in an epoch, or stands at after a step.
struct EpochTotals {
  /// Over all replicas: one a measure, then the number of valid samples.
  std::vector<double> sums = {};
  std::int64_t replica_samples = 0;
  std::int64_t steps = 0;  ///< of the epoch, those before a resume included
  std::int64_t global_step = 0;
  std::int64_t skipped_steps = 0;  ///< not finite; they count as steps
  bool stopped = false;            ///< before the epoch's end
  /// Weights and buffers are those after `steps`: false while a step changes them.
  bool whole = true;
  std::int64_t batch_size = 0;
  StepTimes times = {};
  StepTimes first_times = {};  ///< of the first step
  double seconds = 0;
  /// After this replica's last batch of a finished step.
  std::shared_ptr<const pipeline::Position> position = {};
};

/// What all replicas of an epoch share.
struct EpochContext {
  const TrainOptions& options;
  const Schedule& schedule;
  TrainStepSetup step;
  EpochFeed& feed;
  Failure& input_failure;  ///< what feed.next() throws is kept here; it stops the feed
  EpochHost& host;
  Topology topology;
  std::int64_t batch_size = 0;   ///< of a replica; 0: what each batch has
  std::int64_t epoch = 0;        ///< from 0
  std::int64_t first_step = 0;   ///< steps already taken in this epoch (resumed)
  std::int64_t global_step = 0;  ///< steps taken before this epoch's first one here
  std::int64_t steps_per_epoch = 0;
  std::int64_t shown_steps = 0;         ///< steps_per_epoch for people: may be learnt
  std::vector<double> first_sums = {};  ///< of the steps already taken; empty: zeros
  std::span<EpochTotals> totals;        ///< one a replica of this process
};

class ReplicaEpoch {
 public:
  /// `context` and `replica` are borrowed.
  ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device);

  /// Leaves what it did in context.totals.
  void run();

 private:
  void take_steps();
  bool next_micro_batch();
  bool vote();
  nn::BatchKey random_key() const;
  void tell_start();
  void finish_step();
  bool settle();
  void settle_or_fail();
  bool fails_on_non_finite() const;
  void count_step();
  void checkpoint_if_due();
  void report();
  float learning_rate() const;
  double mean_loss() const;

  const EpochContext& context_;
  Replica& replica_;
  std::string device_;
  EpochTotals& totals_;
  StepTimer timer_;
  TrainStep step_;
  RateMeter rate_;
  ReplicaInput input_;
  MicroBatch micro_;
  std::shared_ptr<const pipeline::Position> position_ = {};  ///< after the last batch
  /// The last step's, until it is known whether it was finite; empty: it is known.
  std::vector<double> pending_sums_;
  double last_loss_ = 0;  ///< the sum of the last settled step
  bool stop_ = false;
  bool input_failed_ = false;
  bool checkpoint_due_ = false;
};

}  // namespace millrace::trainer::detail
