#include "trainer/detail/loaded_group.h"

#include "trainer/checkpoint.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

LoadedGroup::LoadedGroup(const EvalInput& input, const EvalOptions& options)
    : replicas({.model = input.model,
                .objective = input.objective,
                .devices = input.devices,
                .precision = options.precision}) {
  const std::string& path = options.weights;
  const std::vector<FlatTensors> tensors{
      {.table = &input.model.parameters(), .values = replicas.weights()},
      {.table = &input.model.state(), .values = replicas.replica(0).state()}};
  if (path.ends_with(".safetensors")) {
    for (const std::string& line : load_weights(path, tensors).warnings)
      options.log.warn(path + ": " + line);
  } else {
    load_checkpoint_model(path, input.model.name(), tensors);
  }
  replicas.spread_from_rank0();
}

}  // namespace millrace::trainer::detail
