#include "trainer/detail/loop/replica.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::trainer::detail {
namespace {

ReplicaSetup with_buffers(ReplicaSetup setup, DeviceSpan buffers) {
  setup.buffers = buffers;
  return setup;
}

std::vector<const Collectives*> all_of(const ReplicaSetup& setup, const TrainingGroups& groups) {
  std::vector<const Collectives*> all{&setup.control};
  if (groups.gradients != nullptr) all.push_back(groups.gradients);
  if (groups.weights != nullptr) all.push_back(groups.weights);
  return all;
}

const pipeline::BatchField& float_pictures(const pipeline::Batch& batch, const std::string& name) {
  const auto found = std::ranges::find(batch.fields, name, &pipeline::BatchField::name);
  const bool has_floats =
      found != batch.fields.end() && (found->spec.dtype == decode::DType::kFloat32 ||
                                      found->spec.dtype == decode::DType::kBFloat16);
  if (has_floats) return *found;
  throw Error(ErrorCode::kUnsupported,
              "whitening filters are made of floats in the host's memory, "
              "which the pictures of field " +
                  name + " are not");
}

/// A slot's values as float32.
std::vector<float> slot_of(const pipeline::BatchField& field, std::size_t slot,
                           std::size_t values) {
  std::vector<float> picture(values);
  if (field.spec.dtype == decode::DType::kFloat32) {
    std::ranges::copy(field.as<float>().subspan(slot * values, values), picture.begin());
  } else {
    std::ranges::transform(field.as<std::uint16_t>().subspan(slot * values, values),
                           picture.begin(), decode::from_bfloat16);
  }
  return picture;
}

}  // namespace

Replica::Replica(Backend& backend, const ReplicaSetup& setup, const TrainingGroups& groups)
    : buffers_(backend.allocate(setup.model.buffers().padded_size())),
      setup_(with_buffers(setup, buffers_.span)),
      groups_(groups),
      clock_(all_of(setup, groups), setup.trace),
      steps_(backend.make_replica(setup_)),
      backend_(backend) {}

void Replica::make_step(const TrainOptions& options, std::vector<DeviceSpan> states,
                        DeviceSpan ema) {
  ema_ = ema;
  MILLRACE_CHECK(groups_.gradients != nullptr, "a replica that does not train");
  step_ = steps_->make_step({.optimizer = options.optimizer,
                             .clip = options.clip,
                             .ema_decay = options.ema_decay,
                             .accumulate = options.accumulate,
                             .reducer = options.reducer,
                             .states = std::move(states),
                             .ema = ema,
                             .gradient_group = *groups_.gradients,
                             .weight_group = groups_.weights,
                             .clock = clock_});
}

void Replica::start_from(const pipeline::Batch* batch) {
  const nn::Graph* graph = setup_.model.graph();
  if (graph == nullptr) return;
  const std::vector<nn::WhiteningLayer> layers = nn::whitening_layers(*graph);
  if (layers.empty()) return;
  for (const nn::WhiteningLayer& layer : layers) write_filters(layer, batch);
  control().barrier();
  weights_changed();
}

// All compute the same sums' filters, which another processor may round otherwise: rank 0's count.
void Replica::write_filters(const nn::WhiteningLayer& layer, const pipeline::Batch* batch) {
  nn::PatchMoments moments(layer);
  const auto values = static_cast<std::size_t>(nn::num_values(layer.image));
  if (batch != nullptr) {
    const pipeline::BatchField& field =
        float_pictures(*batch, objective().inputs().at(layer.input));
    for (std::size_t slot = 0; slot < batch->valid.size(); ++slot)
      if (batch->valid[slot] != 0) moments.add(slot_of(field, slot, values));
  }
  control().all_reduce(moments.sums());
  std::vector<float> filters = moments.filters();
  control().broadcast(std::as_writable_bytes(std::span(filters)), 0);
  if (device() != 0) return;
  const std::size_t offset = setup_.model.parameters().entries()[layer.weight].offset;
  backend_.write(filters, setup_.weights.subspan(offset, filters.size()));
  if (!ema_.empty()) backend_.write(filters, ema_.subspan(offset, filters.size()));
}

}  // namespace millrace::trainer::detail
