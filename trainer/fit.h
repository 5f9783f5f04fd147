// fit: the training loop, and evaluate: exact evaluation. The trainer's front door.
//
// One replica a device, on the device's own thread, all with one set of weights: a step is forward,
// loss, backward with the gradients' reduction beside it, then each replica updates its slices of
// the weights. The loss is the mean over the valid samples of all replicas; running statistics are
// averaged over the replicas every step, so that a checkpoint of them is all there is to know.
//
//   GraphModel model("lenet", build_model("lenet", {.num_classes = 10}));
//   LossObjective objective;
//   LoaderFeed train(train_options, devices), val(val_options, devices);
//   DeviceThreads threads(devices);
//   const FitResult result = fit({.model = model, .objective = objective, .train = train,
//                                 .validation = &val, .devices = threads},
//                                {.epochs = 3, .run_folder = "runs/lenet"}, {&bar, &json});
//
// Threads: call from one thread; it returns when every replica has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/objective.h"
#include "trainer/observer.h"
#include "trainer/optimizer.h"
#include "trainer/replicas.h"
#include "trainer/schedule.h"

namespace millrace::trainer {

/// What is trained, on what; borrowed.
struct FitInput {
  const Model& model;
  const Objective& objective;
  Feed& train;
  Feed* validation = nullptr;  ///< null: no evaluation
  ReplicaThreads& devices;
};

/// What to do when a step's loss is not a number or infinite.
enum class OnNonFinite { kFail, kSkip };

/// Bounds on a step's gradient, the mean over its samples. Values are clipped before the norm.
struct ClipOptions {
  double norm = 0.0;   ///< of all gradients together, at most; 0: no bound
  float value = 0.0F;  ///< of each gradient's magnitude, at most; 0: no bound
};

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
  /// Keeps an exponential mean of the weights (decay * mean + (1 - decay) * weights, every step),
  /// evaluates with it, and saves it beside the weights as ema.safetensors. 0: none.
  double ema_decay = 0.0;
  /// Batches a device gets in an epoch, for schedules per step; 0: what the feed says.
  std::int64_t steps_per_epoch = 0;
  std::int64_t log_steps = 20;  ///< steps between two log lines; 0 is none
  OnNonFinite on_non_finite = OnNonFinite::kFail;
  /// The run ends, with a checkpoint, at the first step after this long; 0: no limit.
  std::chrono::seconds max_time{0};
  /// Batches a device evaluates before training begins, to find out early what would fail.
  std::int64_t sanity_val_steps = 0;
  /// A .safetensors file to start from, in torchvision's names; with replace_head the last layer
  /// keeps its own start values.
  std::string init = {};
  bool replace_head = false;
  CheckpointOptions checkpoint = {};
  /// metrics.jsonl, config.json, checkpoints/, rank logs go here; empty: nothing is written.
  std::string run_folder = {};
  /// The options as the user gave them, as JSON: written to config.json and into checkpoints.
  std::string config_json = {};
  /// A checkpoint's folder to go on from; "auto": the newest whole one of this run's folder, or
  /// from the start where there is none.
  std::string resume = {};
  /// A stop makes the run checkpoint after the step in flight, and end (`interrupted`).
  std::stop_token stop = {};
  Log log = {};  ///< the master's lines for people
};

struct FitResult {
  EndEvent end;
  std::vector<EpochEvent> epochs;  ///< of this call
  std::string last_checkpoint;     ///< empty: none was written
  std::string best_checkpoint;
};

/// Throws: InvalidArgument (options, a checkpoint of another model) before anything is written;
/// otherwise the first replica's or the input's Error, within a second of it.
FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers = {});

struct EvalOptions {
  nn::Precision precision = nn::Precision::kBFloat16;
  /// A checkpoint's folder or a .safetensors file with the model's weights. Required.
  std::string weights = {};
  std::stop_token stop = {};
  Log log = {};
};

struct EvalInput {
  const Model& model;
  const Objective& objective;
  Feed& feed;
  ReplicaThreads& devices;
};

struct EvalResult {
  NamedValues values;
  std::int64_t samples = 0;
  double seconds = 0;
};

/// Scores every sample once, whatever the number of devices and the last batch's fill.
EvalResult evaluate(const EvalInput& input, const EvalOptions& options,
                    const std::vector<Observer*>& observers = {});

}  // namespace millrace::trainer
