#include "trainer/detail/loop/checkpoint_replicas.h"

#include "io/base/error.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {
namespace {

/// Reads and checks the weights before anything is allocated for them.
Safetensors read_fitting(const EvalInput& input, const EvalOptions& options) {
  const std::string& path = options.weights;
  const auto opener = checkpoint_opener(options);
  const std::vector<FlatTensors> like{{.table = &input.model.parameters(), .values = {}},
                                      {.table = &input.model.buffers(), .values = {}}};
  if (!path.ends_with(".safetensors"))
    return read_checkpoint_model(find_checkpoint(path, "best", *opener, options.log),
                                 input.model.name(), like, *opener);
  try {
    Safetensors file = read_weights(path, *opener);
    for (const std::string& line : check_weights(file, like).warnings)
      options.log.warn(io::printable_url(path) + ": " + line);
    return file;
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

/// On process 0; empty on the others, which get the values from there.
Safetensors read_on_first(Processes& processes, const EvalInput& input,
                          const EvalOptions& options) {
  Safetensors file;
  processes.first_does([&] { file = read_fitting(input, options); });
  return file;
}

}  // namespace

CheckpointReplicas::CheckpointReplicas(Processes& processes, const EvalInput& input,
                                       const EvalOptions& options)
    : CheckpointReplicas(processes, input, options, read_on_first(processes, input, options)) {}

CheckpointReplicas::CheckpointReplicas(Processes& processes, const EvalInput& input,
                                       const EvalOptions& options, const Safetensors& file)
    : group({.model = input.model,
             .objective = input.objective,
             .devices = input.devices,
             .cluster = processes.cluster(),
             .backend = input.backend,
             .precision = options.precision}) {
  const DeviceSpan weights = group.weights();
  const DeviceSpan buffers = group.replica(0).buffers();
  const auto values = [this](DeviceSpan span) { return FlatValues(group.backend(), span); };
  if (processes.is_first())
    copy_checked_tensors(file, {{.table = &input.model.parameters(), .values = values(weights)},
                                {.table = &input.model.buffers(), .values = values(buffers)}});
  processes.copy_from_first(group.backend(), weights);
  processes.copy_from_first(group.backend(), buffers);
  group.spread_from_device0();
}

}  // namespace millrace::trainer::detail
