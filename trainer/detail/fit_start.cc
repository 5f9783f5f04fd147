#include "trainer/detail/fit_start.h"

#include "io/base/error.h"

namespace millrace::trainer::detail {
void check_options(const TrainOptions& options) {
  require(options.epochs > 0, "a run needs at least one epoch");
  require(options.log_steps >= 0, "steps between log lines must not be negative");
  require(options.accumulate > 0, "a step takes at least one batch");
  require(options.clip.norm >= 0.0 && options.clip.value >= 0.0F,
          "bounds of gradients must not be negative");
  require(options.ema_decay >= 0.0 && options.ema_decay < 1.0,
          "the decay of the weights' mean must lie in [0, 1)");
  require(options.init.empty() || options.resume.empty() || options.resume == "auto",
          "a run either starts from weights or goes on from a checkpoint");
}

ScheduleOptions scaled_schedule(const TrainOptions& options, int world) {
  ScheduleOptions schedule = options.schedule;
  if (options.scale_lr) schedule.base_lr *= world;
  return schedule;
}

TrainState resume_from(const std::string& path, const TrainState& fresh,
                       const CheckpointTensors& tensors, const Log& log) {
  const TrainState found = read_checkpoint_state(path);
  if (found.model == fresh.model && found.optimizer != fresh.optimizer) {
    throw Error(ErrorCode::kInvalidArgument,
                "the checkpoint was trained with " + found.optimizer + ", the run asks for " +
                    fresh.optimizer,
                {.url = path, .stage = "checkpoint"});
  }
  TrainState state = load_checkpoint(path, fresh.model, tensors);
  if (state.world != fresh.world || state.seed != fresh.seed) {
    log.warn(
        "resumed with another seed or number of devices: the run will not be the same, bit for "
        "bit, as one without a break");
  }
  if (state.monitor != fresh.monitor) {
    state.best.reset();
    state.top.clear();
  }
  state.seed = fresh.seed;
  state.world = fresh.world;
  state.monitor = fresh.monitor;
  state.options = fresh.options;
  log.info("Resumed from " + path + " at epoch " + std::to_string(state.epoch + 1) + ", step " +
           std::to_string(state.step_in_epoch));
  return state;
}

}  // namespace millrace::trainer::detail
