// EpochTraining: the steps of a run's epochs, on all replicas of this process, and what came of
// them.
//
// It runs on the caller's thread; replicas run inside ReplicaGroup::run() and are idle between.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/detail/loop/failure.h"
#include "trainer/detail/loop/replica_epoch.h"
#include "trainer/detail/loop/run_parts.h"
#include "trainer/detail/loop/run_saves.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/schedule.h"

namespace millrace::trainer::detail {

class EpochTraining final : private EpochHost {
 public:
  /// All borrowed. `steps_per_epoch`: 0 if it is unknown.
  EpochTraining(const RunParts& run, RunSaves& saves, const Schedule& schedule,
                std::int64_t steps_per_epoch);

  /// Trains the epoch, from its beginning or where the run that is resumed stood. If a fault ends
  /// it, its finished steps are saved. Throws: what a replica or any process's input threw.
  EpochEvent run(std::int64_t epoch);

  /// Of the current epoch, one per replica of this process.
  std::span<const EpochTotals> totals() const { return totals_; }
  /// Whether the epoch ended before its last step.
  bool was_stopped() const { return totals_.front().stopped; }
  /// Samples per second of all replicas, over all training so far.
  double mean_rate() const { return seconds_ > 0.0 ? samples_ / seconds_ : 0.0; }

 private:
  std::unique_ptr<EpochFeed> open(std::int64_t epoch);
  EpochContext context_for(std::int64_t epoch, EpochFeed& feed, Failure& input);
  void train(std::int64_t epoch, EpochFeed& feed);
  EpochEvent make_event(std::int64_t epoch, std::int64_t first_step, EpochFeed& feed);
  /// Once, after the first epoch that decoding limits.
  void advise(const StallReport& stall, const EpochFeed& feed);

  bool stop_due() override { return !run_.stop.reason().empty(); }
  bool checkpoint_due() override { return saves_.due(); }
  void save_checkpoint() override { saves_.save_in_epoch(totals_); }
  void on_step_start(const StepStart& step) override;
  void on_step(const StepEvent& event) override;
  void on_log_step(const StepEvent& event) override { run_.output.log_step(event); }

  const RunParts run_;
  RunSaves& saves_;
  const Schedule& schedule_;
  const std::int64_t steps_per_epoch_;
  std::int64_t shown_steps_;
  std::vector<EpochTotals> totals_;
  double samples_ = 0;  ///< trained on in this call, all replicas
  double seconds_ = 0;  ///< of this call
  bool has_advised_ = false;
};

}  // namespace millrace::trainer::detail
