// CheckpointKeeper: which checkpoints a run keeps: the last one, the best ones, and when `last` is
// due in mid-epoch.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/clock.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/loop/run_weights.h"
#include "trainer/detail/store/checkpoint_place.h"
#include "trainer/events.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// Called with each checkpoint's path, before it is written, while it is, and when it is complete.
struct CheckpointHooks {
  std::function<void(const std::string& path)> before;
  std::function<void(const CheckpointStep& step)> progress;
  std::function<void(const std::string& path)> saved;
};

class CheckpointKeeper {
 public:
  /// `options`, `opener`, `weights` and `state` (what is saved, and which epochs were best) are
  /// borrowed.
  CheckpointKeeper(const TrainOptions& options, const io::Opener& opener, RunWeights& weights,
                   TrainState& state, CheckpointHooks hooks);

  /// Where checkpoints are written; empty: none are.
  const std::string& folder() const { return folder_; }
  /// The checkpoints written by this object; empty: none.
  const std::string& last() const { return last_; }
  const std::string& best() const { return best_; }

  /// Of a run that goes on from the checkpoint `from`: if its best epochs are in another folder,
  /// copies the best one from beside `from`, or begins a best one anew. Before the first save.
  void bring_best(const std::string& from);
  /// Whether the time between two checkpoints has passed; if so, starts it again.
  bool due();
  /// Saves `last` in mid-epoch.
  void save_in_epoch();
  /// Whether the epoch is the best so far.
  bool is_best(const EpochEvent& event) const;
  /// Saves the checkpoints due at an epoch's end.
  void end_epoch(const EpochEvent& event);
  /// Calls hooks for checkpoints that have reached their store.
  void report();
  /// Returns when all checkpoints are complete. Throws: Io.
  void finish();

 private:
  void begin_wait();
  void tell_progress(const CheckpointStep& step);
  bool is_better(double value, double than) const;
  bool has(const std::string& name) const;
  bool is_best(const std::string& path) const;
  void save_top(const EpochEvent& event);
  std::string save(const std::string& name);

  const TrainOptions& options_;
  const io::Opener& opener_;
  RunWeights& weights_;
  TrainState& state_;
  CheckpointHooks hooks_;
  std::string folder_;
  std::unique_ptr<CheckpointPlace> place_;  ///< null: no folder
  std::string last_;
  std::string best_;
  Clock::TimePoint last_save_;
  Clock::TimePoint wait_begin_;
  bool is_told_ = false;  ///< the log, of this wait
};

/// `wanted`, or if it is empty val_top1, val_miou, val_loss or train_loss, the first that is
/// measured. Throws: InvalidArgument for one that is not measured, with the list.
std::string resolve_monitor(const std::string& wanted, const std::vector<std::string>& measures,
                            bool has_validation);

/// Where the run writes checkpoints; empty: none are.
std::string checkpoint_folder(const TrainOptions& options);

/// The monitored value of an epoch ("val_top1" is event.val's "top1"); NaN if it has none.
double monitored_value(const std::string& monitor, const EpochEvent& event);

}  // namespace millrace::trainer::detail
