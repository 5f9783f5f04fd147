#include "trainer/detail/loop/run_weights.h"

#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

RunWeights::RunWeights(const Model& model, ReplicaGroup& group, const OptimizerOptions& optimizer)
    : model_(model), group_(group), state_names_(optimizer.rule.make()->state_names()) {
  for (std::size_t i = 0; i < state_names_.size(); ++i) {
    states_.push_back(group.backend().allocate(model.parameters().padded_size()));
  }
}

std::vector<DeviceSpan> RunWeights::states() const {
  std::vector<DeviceSpan> spans;
  for (const DeviceBuffer& state : states_) spans.push_back(state.span);
  return spans;
}

CheckpointTensors RunWeights::tensors() {
  const ParameterTable& table = model_.parameters();
  const auto values = [this](DeviceSpan span) { return FlatValues(group_.backend(), span); };
  const FlatTensors buffers{.table = &model_.buffers(),
                            .values = values(group_.replica(0).buffers())};
  CheckpointTensors all;
  all.model = {{.table = &table, .values = values(group_.weights())}, buffers};
  if (!ema().empty()) all.ema = {{.table = &table, .values = values(ema())}, buffers};
  for (std::size_t i = 0; i < states_.size(); ++i) {
    all.optimizer.push_back(
        {.prefix = state_names_[i] + ".", .table = &table, .values = values(states_[i].span)});
  }
  return all;
}

void RunWeights::initialise(const TrainOptions& options) {
  initialise_model(options.seed);
  if (!options.init.empty()) {
    const LoadedWeights loaded =
        load_weights(options.init, tensors().model, {.replace_head = options.replace_head},
                     *checkpoint_opener(options), options.log);
    for (const std::string& name : loaded.kept)
      options.log.info(name + " is initialised, not read from " + io::printable_url(options.init));
    for (const std::string& line : loaded.warnings) options.log.warn(options.init + ": " + line);
  }
  if (options.ema_decay <= 0.0) return;
  ema_ = group_.backend().allocate(group_.weights().size());
  group_.backend().copy(group_.weights(), ema());
}

void RunWeights::initialise_model(std::uint64_t seed) {
  std::vector<float> weights(model_.parameters().padded_size());
  std::vector<float> buffers(model_.buffers().padded_size());
  model_.initialise(seed, weights, buffers);
  group_.backend().write(weights, group_.weights());
  group_.backend().write(buffers, group_.replica(0).buffers());
}

void RunWeights::copy_from_first(Processes& processes) {
  for (const DeviceSpan one : {group_.weights(), group_.replica(0).buffers(), ema()})
    processes.copy_from_first(group_.backend(), one);
  for (const DeviceSpan state : states()) processes.copy_from_first(group_.backend(), state);
  group_.spread_from_device0();
}

void RunWeights::swap_ema() {
  if (ema().empty()) return;
  group_.backend().swap(ema(), group_.weights());
  for (int device = 0; device < group_.size(); ++device) group_.replica(device).weights_changed();
}

}  // namespace millrace::trainer::detail
