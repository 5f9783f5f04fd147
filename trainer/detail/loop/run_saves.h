// RunSaves: a run's state and its checkpoints: what the run goes on from, and what it saves when.
//
// Process 0 reads and writes, within Processes::decide(), so that a fault there is thrown on all of
// them; every process makes the same calls.
//
// Threads: one at a time; no replica changes the weights meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trainer/checkpoint.h"
#include "trainer/detail/loop/checkpoint_keeper.h"
#include "trainer/detail/loop/replica_epoch.h"
#include "trainer/detail/loop/run_parts.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

/// What of the checkpoints a run reports at its end.
struct SavedResult {
  std::optional<double> best = {};
  std::int64_t best_epoch = 0;
  std::string last_path = {};
  std::string best_path = {};
};

class RunSaves {
 public:
  /// `run` and `opener` are borrowed.
  RunSaves(const RunParts& run, const io::Opener& opener);

  /// The same on every process, once it is open(), but for what was best, which process 0 has.
  const TrainState& state() const { return state_; }
  /// Whether start values are taken from the data: of a run that has weights neither from a file
  /// nor from a step. The same on every process, once it is open().
  bool starts_from_data() const { return !state_.has_init && state_.global_step == 0; }

  /// Process 0 locks the folder, reads weights or the checkpoint to go on from, and opens its
  /// files; the others get the state.
  void open();
  /// Once steps can be taken: saves what is not yet in `last`, of a run that has nothing more to
  /// do.
  void begin();

  /// Whether a checkpoint is due; true once for each.
  bool due() { return keeper_.due(); }
  /// Tells of checkpoints that have reached their store.
  void report() { keeper_.report(); }

  /// Saves the state after the last step, in mid-epoch. `totals`: one per replica of this process.
  void save_in_epoch(std::span<const EpochTotals> totals);
  /// The same before a fault, if no replica was changing the state and the fault is on all
  /// processes: otherwise they cannot gather it. The shard at `faulty` may have another content
  /// when the run resumes.
  void save_finished_steps(std::span<const EpochTotals> totals, const std::string& faulty = "");
  /// Whether the epoch is the best so far: the same on every process.
  bool is_best(const EpochEvent& event) const;
  /// Saves what is due at an epoch's end.
  void end_epoch(const EpochEvent& event, const EpochTotals& totals);
  /// Returns when all checkpoints are complete.
  SavedResult finish();

 private:
  void open_first();
  std::string find_newest() const;
  std::string resume();
  void save_if_behind();
  std::string joined_position(std::span<const EpochTotals> totals) const;

  const RunParts run_;
  const io::Opener& opener_;
  TrainState state_;
  CheckpointKeeper keeper_;
  std::string resumed_;   ///< process 0: the checkpoint that the run goes on from; or empty
  bool are_any_ = false;  ///< process 0 writes checkpoints
};

}  // namespace millrace::trainer::detail
