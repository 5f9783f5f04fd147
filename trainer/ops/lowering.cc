#include "trainer/ops/detail/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/onednn_faults.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

constexpr std::size_t kNoResult = static_cast<std::size_t>(-1);

std::vector<bool> find_wanting(const nn::Graph& graph) {
  std::vector<bool> wanting;
  for (const nn::Node& node : graph.nodes()) {
    const bool inherited = std::ranges::any_of(
        node.inputs, [&](nn::Value input) { return static_cast<bool>(wanting[input.node]); });
    wanting.push_back(inherited || node.weight != nn::kNoParameter);
  }
  return wanting;
}

DataType onednn_type(decode::DType dtype) {
  return dtype == decode::DType::kBFloat16 ? DataType::bf16 : DataType::f32;
}

/// Where memory is overcommitted, too large a plan would have the kernel end the process, without a
/// word, when it is first used.
AlignedBuffer allocate_arena(std::size_t bytes) {
  constexpr double kGiB = 1 << 30;
  const std::uint64_t memory = usable_memory();
  try {
    if (bytes <= memory) return AlignedBuffer(bytes);
  } catch (const std::bad_alloc&) {  // a limit of the process's own
  }
  throw Error(ErrorCode::kExhausted,
              fmt::format("the activations of a batch take {:.1f} GiB, which this process cannot "
                          "have (machine or cgroup: {:.1f} GiB): smaller batches take less",
                          static_cast<double>(bytes) / kGiB, static_cast<double>(memory) / kGiB));
}

}  // namespace

Lowering::Lowering(const nn::Graph& graph, const nn::PlanOptions& options,
                   const nn::PlanMemory& memory, Context& context)
    : graph_(graph),
      memory_(memory),
      context_(context),
      inputs_(graph.nodes().size()),
      wide_inputs_(graph.nodes().size()),
      values_(graph.nodes().size()),
      result_of_(graph.nodes().size(), kNoResult),
      wants_gradient_(find_wanting(graph)),
      gradients_(graph.nodes().size()),
      final_at_(graph.parameters().entries().size(), -1),
      input_works_(graph.nodes().size()) {
  const DataType type = onednn_type(options.input_dtype);
  for (const nn::Value input : graph.inputs()) {
    const nn::Shape& shape = graph.node(input).shape;
    const Desc desc = shape.size() == 3 ? Desc({options.batch_size, shape[0], shape[1], shape[2]},
                                               type, FormatTag::acdb)
                                        : Desc({options.batch_size, shape[0]}, type, FormatTag::ab);
    inputs_[input.node].memory = dnnl::memory(desc, context_.engine, nullptr);
  }
}

void Lowering::set_step(std::size_t op, bool backward) {
  check_memory_for_code();
  op_ = op;
  step_ = backward ? kTurn - static_cast<int>(op) : static_cast<int>(op);
}

Tensor Lowering::make(const Desc& desc) {
  lifetimes_.push_back({desc.get_size(), step_, step_});
  Tensor tensor{dnnl::memory(desc, context_.engine, nullptr), lifetimes_.size() - 1};
  bindings_.push_back({tensor.memory, tensor.buffer});
  return tensor;
}

Tensor Lowering::view(const Tensor& tensor, const Desc& desc) {
  MILLRACE_CHECK(tensor.buffer != kOutsideArena, "only arrays of the arena have views");
  Tensor other{dnnl::memory(desc, context_.engine, nullptr), tensor.buffer};
  other.rounded = tensor.rounded;
  bindings_.push_back({other.memory, other.buffer});
  use(other);
  return other;
}

void Lowering::use(const Tensor& tensor) {
  if (!tensor || tensor.buffer == kOutsideArena) return;
  nn::Lifetime& life = lifetimes_[tensor.buffer];
  life.first = std::min(life.first, step_);
  life.last = std::max(life.last, step_);
}

dnnl::memory Lowering::keep(const Desc& desc) {
  kept_.emplace_back(desc.get_size());
  return {desc, context_.engine, kept_.back().data()};
}

dnnl::memory Lowering::scratchpad(const Desc& desc) {
  if (desc.get_size() == 0) return {};
  scratchpad_bytes_ = std::max(scratchpad_bytes_, desc.get_size());
  scratchpads_.emplace_back(desc, context_.engine, nullptr);
  return scratchpads_.back();
}

Tensor Lowering::raw_input(nn::Value value) {
  const Tensor& given = inputs_[value.node];
  if (!given || context_.type != DataType::f32 || type_of(given.desc()) == DataType::f32)
    return given;
  Tensor& wide = wide_inputs_[value.node];
  if (!wide) wide = widen_input(value);
  use(wide);
  return wide;
}

// Without bf16 instructions oneDNN reorders from bf16 by its reference, at 50 ns a value.
Tensor Lowering::widen_input(nn::Value value) {
  const Tensor& given = inputs_[value.node];
  const dnnl::memory::dims dims = dims_of(given.desc());
  Tensor wide = make({dims, DataType::f32, dims.size() == 4 ? FormatTag::acdb : FormatTag::ab});
  lifetimes_[wide.buffer].first = -1;
  Work work =
      loop_work("widening", {given.memory, wide.memory},
                [from = given.memory, to = wide.memory](const Pass&) { widen_bfloat16(from, to); });
  work.about.layout = layout_text(given.desc(), wide.desc());
  input_works_[value.node].push_back(std::move(work));
  return wide;
}

Tensor Lowering::value(nn::Value value) {
  const std::size_t result = result_of_[value.node];
  if (result != kNoResult) forward_results_[result].to_round |= !values_[value.node].rounded;
  return unrounded_value(value);
}

Tensor Lowering::unrounded_value(nn::Value value) {
  if (!values_[value.node] && inputs_[value.node]) values_[value.node] = convert_input(value);
  MILLRACE_CHECK(static_cast<bool>(values_[value.node]), "an op reads a value without a writer");
  use(values_[value.node]);
  return values_[value.node];
}

// An input is copied before the first op runs, whichever op asks for it first.
Tensor Lowering::convert_input(nn::Value value) {
  Tensor copy = make(gradient_desc(value));
  lifetimes_[copy.buffer].first = -1;
  const Tensor raw = raw_input(value);
  input_works_[value.node].push_back(reorder_work(context_, raw.memory, copy.memory));
  return copy;
}

void Lowering::set_value(std::size_t node, Tensor tensor) {
  values_[node] = tensor;
  result_of_[node] = forward_results_.size();
  forward_results_.push_back({op_, std::move(tensor), false});
}

void Lowering::add_gradient(nn::Value value, Tensor tensor, bool shared) {
  if (!wants_gradient(value)) return;
  gradients_[value.node].push_back({tensor, shared, backward_results_.size()});
  const bool rounded = tensor.rounded;
  backward_results_.push_back({op_, std::move(tensor), !rounded});
}

Tensor Lowering::rounded_result(std::size_t node) {
  Tensor result = make(gradient_desc({node}));
  result.rounded = true;
  set_value(node, result);
  return result;
}

Tensor Lowering::rounded_gradient(nn::Value value) {
  Tensor gradient = make(gradient_desc(value));
  gradient.rounded = true;
  add_gradient(value, gradient);
  return gradient;
}

std::vector<Gradient> Lowering::take_gradients(std::size_t node) {
  for (const Gradient& part : gradients_[node]) use(part.tensor);
  return std::exchange(gradients_[node], {});
}

Desc Lowering::gradient_desc(nn::Value value) const {
  const nn::Shape& shape = graph_.node(value).shape;
  return shape.size() == 3 ? context_.image(shape) : context_.features(shape[0]);
}

dnnl::memory Lowering::parameter(std::size_t index, const dnnl::memory::dims& dims, FormatTag tag) {
  // oneDNN's handles are never const; a source is only read.
  auto* data = const_cast<float*>(parameter_values(index).data());
  return {{dims, DataType::f32, tag}, context_.engine, data};
}

dnnl::memory Lowering::gradient(std::size_t index, const dnnl::memory::dims& dims, FormatTag tag) {
  return {{dims, DataType::f32, tag}, context_.engine, gradient_values(index).data()};
}

std::span<const float> Lowering::parameter_values(std::size_t index) {
  const Parameter& entry = graph_.parameters().entries()[index];
  needed_.resize(std::max(needed_.size(), op_ + 1), graph_.parameters().padded_size());
  needed_[op_] = std::min(needed_[op_], entry.offset);
  return memory_.parameters.subspan(entry.offset, entry.size);
}

std::span<float> Lowering::gradient_values(std::size_t index) {
  const Parameter& entry = graph_.parameters().entries()[index];
  final_at_[index] = static_cast<std::ptrdiff_t>(op_);
  return memory_.gradients.subspan(entry.offset, entry.size);
}

std::span<float> Lowering::buffer_values(std::size_t index) const {
  const Parameter& entry = graph_.buffers().entries()[index];
  return memory_.buffers.subspan(entry.offset, entry.size);
}

std::vector<std::size_t> Lowering::needed_offsets(std::size_t num_ops) const {
  std::vector<std::size_t> offsets = needed_;
  offsets.resize(num_ops, graph_.parameters().padded_size());
  return offsets;
}

std::vector<std::size_t> Lowering::ready_counts(std::size_t num_ops) const {
  const auto& entries = graph_.parameters().entries();
  std::vector<std::size_t> counts(num_ops, 0);
  for (std::size_t op = 0; op < num_ops; ++op) {
    const auto pending = std::ranges::find_if(final_at_, [&](std::ptrdiff_t last) {
      return last >= 0 && last < static_cast<std::ptrdiff_t>(op);
    });
    const auto index = static_cast<std::size_t>(pending - final_at_.begin());
    counts[op] =
        pending == final_at_.end() ? graph_.parameters().padded_size() : entries[index].offset;
  }
  return counts;
}

std::vector<std::size_t> Lowering::without_gradient() const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < final_at_.size(); ++i) {
    if (final_at_[i] < 0) indices.push_back(i);
  }
  return indices;
}

std::vector<Lowering::InputWorks> Lowering::take_input_works() {
  std::vector<InputWorks> all;
  for (const nn::Value input : graph_.inputs()) {
    Works& works = input_works_[input.node];
    if (!works.empty()) all.push_back({input.node, std::move(works)});
  }
  return all;
}

void Lowering::finish(OwnedMemory& memory) {
  const nn::ArenaLayout plan = nn::lay_out_arena(lifetimes_);
  memory.arena = allocate_arena(plan.total_bytes);
  memory.scratchpad = AlignedBuffer(scratchpad_bytes_);
  memory.kept = std::move(kept_);
  for (Binding& binding : bindings_) {
    binding.memory.set_data_handle(memory.arena.data() + plan.offsets[binding.buffer]);
  }
  for (dnnl::memory& pad : scratchpads_) pad.set_data_handle(memory.scratchpad.data());
}

}  // namespace millrace::trainer::ops
