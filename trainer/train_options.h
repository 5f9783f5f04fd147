// TrainOptions: how a run trains, what it keeps, and when it ends.
//
// Threads: as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/gradient_reducer.h"
#include "trainer/nn/plan.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"

namespace millrace::trainer {

/// What to do when a step's loss or a gradient is not a number or infinite: its update is left out
/// in both cases.
enum class OnNonFinite { kFail, kSkip };

struct CheckpointOptions {
  /// Where `last` and `best` lie; empty: `<run_folder>/checkpoints`, none without a run folder.
  std::string folder = {};
  bool save_last = true;
  bool save_best = true;
  /// The measure that decides what is best; "val_loss" and "train_loss" are best when low,
  /// "val_top1" and all others when high. Empty: val_top1 where measured, else val_loss, else
  /// train_loss.
  std::string monitor = {};
  /// `last` is also written in mid-epoch: every so many steps, or seconds; 0 is never.
  std::int64_t every_steps = 0;
  std::chrono::seconds every{0};
  /// The best k epochs are kept as `epoch-0007`; 0: none but `best`.
  std::int64_t top_k = 0;
};

struct TrainOptions {
  std::int64_t epochs = 1;
  nn::Precision precision = nn::Precision::kBFloat16;
  /// Start weights and dropout. The order of the samples has its own, in the feed's options.
  std::uint64_t seed = 0;
  OptimizerOptions optimizer = {};
  ScheduleOptions schedule = {};
  GradientReducerOptions reducer = {};
  /// Multiplies base_lr by the number of devices.
  bool scale_lr = false;
  /// Batches a device takes for one step. The epoch's last step may have fewer.
  std::int64_t accumulate = 1;
  ClipOptions clip = {};
  /// Keeps an EMA of the weights (decay * ema + (1 - decay) * weights, every step),
  /// evaluates with it, and saves it beside the weights as ema.safetensors. 0: none.
  double ema_decay = 0.0;
  /// Batches a device gets in an epoch, for schedules per step; 0: what the feed says.
  std::int64_t steps_per_epoch = 0;
  std::int64_t log_steps = 20;  ///< steps between two log lines; 0 is none
  OnNonFinite on_non_finite = OnNonFinite::kFail;
  /// The run ends, with a checkpoint, at the first step after this long; a wait for the input and
  /// an evaluation end there, too. 0: no limit.
  std::chrono::seconds max_time{0};
  /// Batches a device evaluates before training begins, to find out early what would fail.
  std::int64_t sanity_val_steps = 0;
  /// A .safetensors file to start from, in torchvision's names, or a checkpoint or run folder; with
  /// replace_head the last layer keeps its own start values.
  std::string init = {};
  bool replace_head = false;
  CheckpointOptions checkpoint = {};
  /// metrics.jsonl, config.json, checkpoints/, rank logs go here; empty: nothing is written. One
  /// run at a time may have it.
  std::string run_folder = {};
  /// The options as the user gave them, as JSON: written to config.json and into checkpoints.
  std::string config_json = {};
  /// A checkpoint to go on from, by its folder or URL, or a run's folder: its last one; "auto": the
  /// newest whole one of this run's folder, or from the start where there is none.
  std::string resume = {};
  /// What `init` and `resume` are read through where they are urls: how long it tries, what stops
  /// it. Null: an io::UrlOpener that ends with `stop`.
  std::shared_ptr<const io::Opener> opener = {};
  /// Goes on even where shards hold something else than they did when the checkpoint was written.
  bool accept_changed_data = false;
  /// A stop makes the run checkpoint after the step in flight, and end (`interrupted`).
  std::stop_token stop = {};
  Log log = {};  ///< the master's lines for people
  /// What max_time and timed checkpoints go by; borrowed. Null: the machine's own.
  const Clock* clock = nullptr;

  Clock::TimePoint now() const { return (clock != nullptr ? *clock : Clock::system()).now(); }
};

}  // namespace millrace::trainer
