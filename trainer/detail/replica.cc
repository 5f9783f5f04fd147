#include "trainer/detail/replica.h"

#include "io/base/error.h"

namespace millrace::trainer::detail {
namespace {

/// What a graph's plans read rounded in bf16: weights of convolutions and linear layers, not biases
/// and norms.
std::vector<ValueRange> rounded_weights(const Model& model, nn::Precision precision) {
  std::vector<ValueRange> ranges;
  if (precision != nn::Precision::kBFloat16 || model.graph() == nullptr) return ranges;
  for (const Parameter& entry : model.parameters().entries())
    if (entry.shape.size() > 1) ranges.emplace_back(entry.offset, entry.offset + entry.size);
  return ranges;
}

}  // namespace

Replica::Replica(const ReplicaSetup& setup)
    : setup_(setup), buffers_(setup.backend.allocate(setup.model.buffers().padded_size())) {
  if (setup.gradient_group == nullptr) return;
  gradients_ = setup.backend.allocate(setup.model.parameters().padded_size());
  reducer_ = setup.backend.make_reducer(gradients(), *setup.gradient_group, setup.reducer);
  if (setup.weight_group == nullptr) return;
  weight_gather_ = std::make_unique<WeightGather>(backend(), setup.weights, reducer_->buckets(),
                                                  *setup.weight_group,
                                                  rounded_weights(setup.model, setup.precision));
}

void Replica::gather(DeviceSpan values) {
  for (const Range& bucket : reducer_->buckets())
    backend().all_gather(values.subspan(bucket.begin, bucket.size()), setup_.control);
}

nn::Plan& Replica::plan_for(const pipeline::Batch& batch) {
  const decode::DType dtype = batch.field(setup_.objective.inputs().front()).spec.dtype;
  auto& plan = plans_[{batch.size, dtype}];
  if (plan == nullptr) plan = compile(batch, dtype);
  return *plan;
}

std::unique_ptr<nn::Plan> Replica::compile(const pipeline::Batch& batch, decode::DType dtype) {
  const auto start = std::chrono::steady_clock::now();
  auto plan = setup_.backend.compile(
      setup_.model, {.batch_size = batch.size, .precision = setup_.precision, .input_dtype = dtype},
      {.parameters = setup_.weights, .gradients = gradients(), .buffers = buffers()});
  compilations_.push_back({std::to_string(batch.size) + " x " + setup_.model.name() + " " +
                               std::string(decode::dtype_name(dtype)),
                           std::chrono::steady_clock::now() - start, plan->activation_bytes()});
  return plan;
}

std::vector<std::span<const std::byte>> Replica::inputs_of(const pipeline::Batch& batch) const {
  std::vector<std::span<const std::byte>> inputs;
  for (const std::string& name : setup_.objective.inputs()) {
    inputs.emplace_back(batch.field(name).data);
  }
  return inputs;
}

void Replica::parameters_changed() {
  for (const auto& [key, plan] : plans_) plan->parameters_changed();
}

}  // namespace millrace::trainer::detail
