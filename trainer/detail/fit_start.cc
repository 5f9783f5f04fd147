#include "trainer/detail/fit_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "trainer/detail/checkpoint_opener.h"

namespace millrace::trainer::detail {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, why, {.url = path, .stage = "checkpoint"});
}

/// Of the run itself; its input has its own.
std::vector<std::string> differences_of(const TrainState& saved, const TrainState& given) {
  std::vector<std::string> lines;
  if (saved.world != given.world)
    lines.push_back(fmt::format("devices: {} saved, {} given", saved.world, given.world));
  if (saved.seed != given.seed)
    lines.push_back(fmt::format("seed: {} saved, {} given", saved.seed, given.seed));
  return lines;
}

/// Adds what differs in the input and may.
void check_input(const std::string& path, const TrainState& saved, const TrainState& given,
                 const TrainOptions& options, std::vector<std::string>& differences) {
  if (!saved.data || !given.data) return;
  const std::string content = content_difference(*saved.data, *given.data);
  if (!content.empty() && !options.accept_changed_data) {
    refuse(path, "the training set has changed since the checkpoint: " + content +
                     "; --accept-changed-data continues with it");
  }
  std::vector<std::string> lines = option_differences(*saved.data, *given.data);
  if (const std::string list = list_difference(*saved.data, *given.data); !list.empty())
    lines.insert(lines.begin(), list);
  if (!lines.empty() && !saved.position.empty()) {
    refuse(path,
           fmt::format("the checkpoint is in mid-epoch and continues only with its own input: {}",
                       fmt::join(lines, "; ")));
  }
  differences.insert(differences.end(), lines.begin(), lines.end());
}

}  // namespace

void check_options(const TrainOptions& options) {
  constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 31;
  require(options.epochs > 0 && options.epochs < kMaxEpochs,
          "a run needs at least one epoch, and fewer than 2^31");
  require(options.log_steps >= 0, "steps between log lines must not be negative");
  require(options.accumulate > 0, "a step takes at least one batch");
  require(options.clip.norm >= 0.0 && options.clip.value >= 0.0F,
          "bounds of gradients must not be negative");
  require(options.ema_decay >= 0.0 && options.ema_decay < 1.0,
          "the decay of the weights' EMA must lie in [0, 1)");
  require(options.init.empty() || options.resume.empty() || options.resume == "auto",
          "a run either starts from weights or continues from a checkpoint");
  io::check_local_path(options.run_folder);
  io::check_local_path(options.checkpoint.folder);
}

ScheduleOptions scaled_schedule(const TrainOptions& options, int world) {
  ScheduleOptions schedule = options.schedule;
  if (options.scale_lr) schedule.base_lr *= world;
  return schedule;
}

TrainState resume_from(const std::string& path, const TrainState& fresh,
                       const CheckpointTensors& tensors, const TrainOptions& options) {
  const auto opener = checkpoint_opener(options);
  const TrainState found = read_checkpoint_state(path, *opener);
  if (found.model == fresh.model && found.optimizer != fresh.optimizer) {
    refuse(path, "the checkpoint was trained with " + found.optimizer + ", the run asks for " +
                     fresh.optimizer);
  }
  std::vector<std::string> differences = differences_of(found, fresh);
  check_input(path, found, fresh, options, differences);
  TrainState state = load_checkpoint(path, fresh.model, tensors, *opener);
  if (!differences.empty()) {
    options.log.warn(fmt::format(
        "resumed with another setting ({}): the run will not be the same, bit for bit, as one "
        "without a break",
        fmt::join(differences, "; ")));
  }
  // Steps of the epoch, as this number of devices counts them.
  state.step_in_epoch = state.step_in_epoch * state.world / fresh.world;
  if (state.monitor != fresh.monitor) {
    state.best.reset();
    state.best_epoch = 0;
    state.top.clear();
  }
  state.seed = fresh.seed;
  state.world = fresh.world;
  state.monitor = fresh.monitor;
  state.data = fresh.data;
  state.options = fresh.options;
  options.log.info(fmt::format("Resumed from {} at epoch {}, step {}", path, state.epoch + 1,
                               state.step_in_epoch));
  return state;
}

}  // namespace millrace::trainer::detail
