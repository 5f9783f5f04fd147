#include "trainer/detail/loop/start_filters.h"

#include <algorithm>
#include <span>
#include <string>

#include "io/base/error.h"

namespace millrace::trainer::detail {
namespace {

std::vector<nn::WhiteningLayer> whitening_layers_of(const Model& model) {
  const nn::Graph* graph = model.graph();
  return graph == nullptr ? std::vector<nn::WhiteningLayer>() : nn::whitening_layers(*graph);
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

/// How many of a batch's slots come before the epoch's slot `end`.
std::size_t slots_before(std::int64_t end, const pipeline::Batch& batch,
                         const pipeline::SlotNumbers& slots) {
  const std::int64_t left = std::max<std::int64_t>(0, end - slots.first);
  return static_cast<std::size_t>(std::min(batch.size, (left + slots.stride - 1) / slots.stride));
}

}  // namespace

std::int64_t start_slots(const Model& model) {
  std::int64_t most = 0;
  for (const nn::WhiteningLayer& layer : whitening_layers_of(model))
    most = std::max<std::int64_t>(most, layer.conv.init_samples);
  return most;
}

StartFilters::StartFilters(Replica& replica, From from) : replica_(replica) {
  for (const nn::WhiteningLayer& layer : whitening_layers_of(replica.model()))
    if ((layer.conv.init_samples > 0) == (from == From::kSlots))
      layers_.push_back({layer, nn::PatchMoments(layer)});
}

void StartFilters::add(const pipeline::Batch& batch, const pipeline::SlotNumbers& slots) {
  for (Layer& one : layers_) {
    const pipeline::BatchField& field =
        float_pictures(batch, replica_.objective().inputs().at(one.layer.input));
    const auto values = static_cast<std::size_t>(nn::num_values(one.layer.image));
    const std::int64_t wanted = one.layer.conv.init_samples;
    const std::size_t end = wanted == 0 ? batch.valid.size() : slots_before(wanted, batch, slots);
    for (std::size_t slot = 0; slot < end; ++slot)
      if (batch.valid[slot] != 0) one.moments.add(slot_of(field, slot, values));
  }
}

// All compute the same sums' filters, which another processor may round otherwise: rank 0's count.
void StartFilters::write() {
  if (layers_.empty()) return;
  for (Layer& one : layers_) {
    replica_.control().all_reduce(one.moments.sums());
    std::vector<float> filters = one.moments.filters();
    replica_.control().broadcast(std::as_writable_bytes(std::span(filters)), 0);
    if (replica_.device() == 0) replica_.write_start(one.layer.weight, filters);
  }
  replica_.control().barrier();
  replica_.weights_changed();
}

}  // namespace millrace::trainer::detail
