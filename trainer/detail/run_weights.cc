#include "trainer/detail/run_weights.h"

#include <algorithm>

#include "trainer/detail/checkpoint_opener.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

CheckpointTensors RunWeights::tensors() {
  const ParameterTable& table = model_.parameters();
  const FlatTensors buffers{.table = &model_.buffers(), .values = group_.replica(0).buffers()};
  CheckpointTensors all;
  all.model = {{.table = &table, .values = group_.weights()}, buffers};
  if (!ema_.empty()) all.ema = {{.table = &table, .values = ema_}, buffers};
  for (std::size_t i = 0; i < optimizer_.state_names().size(); ++i) {
    all.optimizer.push_back({.prefix = optimizer_.state_names()[i] + ".",
                             .table = &table,
                             .values = optimizer_.state(i)});
  }
  return all;
}

void RunWeights::initialise(const TrainOptions& options) {
  model_.initialise(options.seed, group_.weights(), group_.replica(0).buffers());
  if (!options.init.empty()) {
    const LoadedWeights loaded =
        load_weights(options.init, tensors().model, {.replace_head = options.replace_head},
                     *checkpoint_opener(options));
    for (const std::string& name : loaded.kept) options.log.info(name + " keeps its start values");
    for (const std::string& line : loaded.warnings) options.log.warn(options.init + ": " + line);
  }
  if (options.ema_decay > 0.0) ema_.assign(group_.weights().begin(), group_.weights().end());
}

void RunWeights::swap_ema() {
  if (ema_.empty()) return;
  std::swap_ranges(ema_.begin(), ema_.end(), group_.weights().begin());
  for (int rank = 0; rank < group_.size(); ++rank) group_.replica(rank).parameters_changed();
}

}  // namespace millrace::trainer::detail
