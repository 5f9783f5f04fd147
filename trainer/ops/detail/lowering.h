// Lowering: the state in which ops are compiled. It turns a graph's values into tensors, records
// the lifetime of each, and at the end assigns them addresses in one arena.
//
// Step numbers order a training step: op i runs forward at i and backward at kTurn - i.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "trainer/nn/arena_layout.h"
#include "trainer/nn/fusion.h"
#include "trainer/ops/detail/aligned_buffer.h"
#include "trainer/ops/detail/op.h"

namespace millrace::trainer::ops {

/// Memory that outlives the lowering: the plan's.
struct OwnedMemory {
  AlignedBuffer arena;
  AlignedBuffer scratchpad;
  std::vector<AlignedBuffer> kept;
};

class Lowering {
 public:
  Lowering(const nn::Graph& graph, const nn::PlanOptions& options, const nn::PlanMemory& memory,
           Context& context);

  Context& context() { return context_; }
  const Context& context() const { return context_; }
  const nn::Graph& graph() const { return graph_; }
  const nn::Node& node(std::size_t index) const { return graph_.nodes()[index]; }

  /// Sets the current op, and whether it is its backward pass.
  void set_step(std::size_t op, bool backward);
  bool trains() const { return !memory_.gradients.empty(); }

  /// A new array, alive from this step on.
  Tensor make(const Desc& desc);
  /// The same array in another layout of as many bytes.
  Tensor view(const Tensor& tensor, const Desc& desc);
  /// Records that this step reads or writes it.
  void use(const Tensor& tensor);
  /// An array that keeps its content between steps.
  dnnl::memory keep(const Desc& desc);
  /// The workspace that all primitives share, one at a time.
  dnnl::memory scratchpad(const Desc& desc);

  /// A value in the plan's own layout (blocked images, plain features) and type. Where bf16 is
  /// emulated, its numbers are bf16's.
  Tensor value(nn::Value value);
  /// The same for a reader that rounds what it loads, or wants it as it was computed.
  Tensor unrounded_value(nn::Value value);
  /// An input in the caller's layout; a null tensor for any other value.
  Tensor raw_input(nn::Value value);
  /// The caller's own array.
  dnnl::memory given_input(nn::Value value) const { return inputs_[value.node].memory; }
  void set_value(std::size_t node, Tensor tensor);
  /// A new array for a node's value, in the plan's layout, which its op leaves rounded.
  Tensor rounded_result(std::size_t node);

  /// Whether anything before or at the value has parameters.
  bool wants_gradient(nn::Value value) const { return wants_gradient_[value.node]; }
  void add_gradient(nn::Value value, Tensor tensor, bool shared = false);
  /// A new array for a part of the value's gradient, likewise.
  Tensor rounded_gradient(nn::Value value);
  std::vector<Gradient> take_gradients(std::size_t node);
  /// Its reader rounds what it loads.
  void leave_unrounded(const Gradient& part) { backward_results_[part.result].to_round = false; }
  /// The gradient's layout: the value's, in the plan's type.
  Desc gradient_desc(nn::Value value) const;

  /// Parameter `index` as a float32 memory of `dims` in the order of `tag`.
  dnnl::memory parameter(std::size_t index, const dnnl::memory::dims& dims, FormatTag tag);
  /// Its gradient; records that this step writes it.
  dnnl::memory gradient(std::size_t index, const dnnl::memory::dims& dims, FormatTag tag);
  /// Whether no op has written this gradient yet in the backward pass: another op that shares the
  /// parameter adds to it.
  bool is_first_gradient(std::size_t index) const { return final_at_[index] < 0; }
  std::span<const float> parameter_values(std::size_t index);
  std::span<float> gradient_values(std::size_t index);
  std::span<float> buffer_values(std::size_t index) const;

  /// For each op, the lowest offset of the parameters that it has asked for so far; the buffer's
  /// size for one without parameters.
  std::vector<std::size_t> needed_offsets(std::size_t num_ops) const;
  /// For each op, how many floats at the front of the gradient buffer are final after its backward
  /// pass.
  std::vector<std::size_t> ready_counts(std::size_t num_ops) const;
  /// Parameters whose gradient no step writes, because no output depends on them.
  std::vector<std::size_t> without_gradient() const;

  /// Plans the arena and sets every tensor's address.
  void finish(OwnedMemory& memory);

  /// The conversions of inputs to the plan's type and layout, to be run before the ops: of each
  /// node that has any.
  struct InputWorks {
    std::size_t node;
    Works works;
  };
  std::vector<InputWorks> take_input_works();

  /// A result of an op. If bf16 is emulated, and a reader takes it as it is, it is to be rounded.
  struct Result {
    std::size_t op;
    Tensor tensor;
    bool to_round;
  };
  const std::vector<Result>& forward_results() const { return forward_results_; }
  const std::vector<Result>& backward_results() const { return backward_results_; }

 private:
  static constexpr int kTurn = 1 << 20;

  Tensor convert_input(nn::Value value);
  Tensor widen_input(nn::Value value);

  const nn::Graph& graph_;
  nn::PlanMemory memory_;
  Context& context_;
  int step_ = 0;
  std::size_t op_ = 0;

  std::vector<nn::Lifetime> lifetimes_;
  struct Binding {
    dnnl::memory memory;
    std::size_t buffer;
  };
  std::vector<Binding> bindings_;
  std::vector<dnnl::memory> scratchpads_;
  std::size_t scratchpad_bytes_ = 0;
  std::vector<AlignedBuffer> kept_;

  std::vector<Tensor> inputs_;          // by node: in the caller's layout
  std::vector<Tensor> wide_inputs_;     // by node: the same as float32, where plans compute so
  std::vector<Tensor> values_;          // by node: in the plan's layout
  std::vector<std::size_t> result_of_;  // by node: its place in forward_results_
  std::vector<bool> wants_gradient_;
  std::vector<std::vector<Gradient>> gradients_;  // by node
  std::vector<std::size_t> needed_;               // by op, as needed_offsets()
  std::vector<std::ptrdiff_t> final_at_;          // by parameter: the op, or -1
  std::vector<Works> input_works_;                // by node
  std::vector<Result> forward_results_;
  std::vector<Result> backward_results_;
};

}  // namespace millrace::trainer::ops
