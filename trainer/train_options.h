// TrainOptions: how a run trains, what it keeps, and when it ends.
//
// Threads: as a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/trace.h"
#include "io/opener.h"
#include "trainer/gradient_reducer.h"
#include "trainer/nn/plan.h"
#include "trainer/optimizer.h"
#include "trainer/schedule_choice.h"
#include "trainer/setting.h"

namespace millrace::trainer {

/// What to do after a step whose outputs, loss or gradients are not finite: end the run, or count
/// it and continue. Its update is skipped in both cases. And after an evaluation whose outputs or
/// loss are not: end the run, or continue without its measures, which then are NaN and never the
/// best.
enum class OnNonFinite { kFail, kSkip };

struct CheckpointOptions {
  /// Where checkpoints are written. Empty: `<run_folder>/checkpoints`; none without a run folder.
  std::string folder = {};
  bool save_last = true;
  bool save_best = true;
  /// The measure that decides which epoch is best: "val_top1". Lower is better if its name contains
  /// "loss", "rmse" or "error". Empty: val_top1, val_miou, val_loss or train_loss, the first that
  /// is measured.
  std::string monitor = {};
  /// Steps, and seconds, after which `last` is also written in mid-epoch. 0: never.
  std::int64_t every_steps = 0;
  std::chrono::seconds every{0};
  /// Keeps the best k epochs as `epoch-0007`. 0: only `best`.
  std::int64_t top_k = 0;
};

struct TrainOptions {
  std::int64_t epochs = 1;
  nn::Precision precision = nn::Precision::kBFloat16;
  /// Of start weights and dropout. The order of the samples has its own, in the feed's options.
  std::uint64_t seed = 0;
  OptimizerOptions optimizer = {};
  ScheduleChoice schedule = constant_schedule();
  /// The length of the whole run, where cosine, linear and one-cycle end. 0: `epochs`.
  double schedule_epochs = 0.0;
  GradientReducerOptions reducer = {};
  /// Multiplies the rule's rate, which must be given, by the number of replicas.
  bool scale_lr = false;
  /// Batches per device in one step; an epoch's last step may have fewer.
  std::int64_t accumulate = 1;
  ClipOptions clip = {};
  /// Keeps an EMA of the weights (decay * ema + (1 - decay) * weights, every step),
  /// evaluates with it, and saves it beside the weights as ema.safetensors. 0: none.
  double ema_decay = 0.0;
  /// Steps in an epoch, for schedules per step. 0: from Feed::steps_per_epoch().
  std::int64_t steps_per_epoch = 0;
  std::int64_t log_steps = 20;  ///< steps between two log lines; 0: no lines
  /// Logs steps, epochs and the end as trainer/log_lines.h has them. Off, an observer says them in
  /// its own way (trainer/xla_lines.h); ranks' own logs have them anyway.
  bool epoch_lines = true;
  OnNonFinite on_non_finite = OnNonFinite::kFail;
  /// Ends the run, with a checkpoint, at the first step after this time; also ends a wait for the
  /// input and an evaluation. 0: no limit.
  std::chrono::seconds max_time{0};
  /// Batches per device to evaluate before training begins, so that a fault there shows early.
  std::int64_t sanity_val_steps = 0;
  /// Weights to start from: a .safetensors file with torchvision's names, or a checkpoint or run
  /// folder. With replace_head the last layer keeps its own start values.
  std::string init = {};
  bool replace_head = false;
  CheckpointOptions checkpoint = {};
  /// Where metrics.jsonl, config.json, checkpoints/ and rank logs are written, by one run at a
  /// time. Empty: nothing is written.
  std::string run_folder = {};
  /// The whole run for people and other programs, as JSON: written to config.json and into
  /// checkpoints.
  std::string config_json = {};
  /// The program's own options, by its description of them: compared between processes in addition
  /// to these, kept in checkpoints, and compared with a checkpoint's. Empty: these are.
  std::vector<Setting> settings = {};
  /// A checkpoint's settings by the names and values that the program's options have now. Empty:
  /// as they were saved. Where `settings` are empty, the library knows its own.
  std::function<std::vector<Setting>(std::vector<Setting> saved, std::span<const Setting> now)>
      renew_settings = {};
  /// A checkpoint to continue from: its folder or URL, or a run's folder (then its last one).
  /// "auto": the newest intact one of this run's folder, or the start if there is none.
  std::string resume = {};
  /// Reads `init` and `resume` from urls. Null: an io::UrlOpener that ends with `stop`.
  std::shared_ptr<const io::Opener> opener = {};
  /// Continues even if shards have changed since the checkpoint was written. If they are of the
  /// validation set, the best epoch begins anew.
  bool accept_changed_data = false;
  /// A stop makes the run write a checkpoint after the current step, and end (`interrupted`).
  std::stop_token stop = {};
  Log log = {};  ///< lines for people; used on process 0 only
  /// Records this process's steps, collectives, evaluations and checkpoints; borrowed. Null:
  /// nothing does.
  Tracer* trace = nullptr;
  /// The clock of max_time and timed checkpoints; borrowed. Null: the system's.
  const Clock* clock = nullptr;

  Clock::TimePoint now() const { return (clock != nullptr ? *clock : Clock::system()).now(); }
};

}  // namespace millrace::trainer
