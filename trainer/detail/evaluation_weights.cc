#include "trainer/detail/evaluation_weights.h"

#include "trainer/checkpoint.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

void load_for_evaluation(const EvalOptions& options, const Model& model, ReplicaGroup& group) {
  const std::string& path = options.weights;
  const std::vector<FlatTensors> tensors{
      {.table = &model.parameters(), .values = group.weights()},
      {.table = &model.state(), .values = group.replica(0).state()}};
  if (path.ends_with(".safetensors")) {
    for (const std::string& line : load_weights(path, tensors).warnings)
      options.log.warn(path + ": " + line);
  } else {
    load_checkpoint_model(path, model.name(), tensors);
  }
  group.spread_from_rank0();
}

}  // namespace millrace::trainer::detail
