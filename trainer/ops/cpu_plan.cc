// The CPU's Plan: ops of oneDNN and of millrace's own loops, run forward in order and backward in
// reverse.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/nn/fusion.h"
#include "trainer/nn/plan.h"
#include "trainer/ops/detail/instructions.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/lowering.h"
#include "trainer/ops/detail/onednn_faults.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer {
namespace ops {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check(const nn::Graph& graph, const nn::PlanOptions& options, const nn::PlanMemory& memory) {
  if (options.batch_size < 1) refuse("a batch needs at least 1 slot");
  const decode::DType dtype = options.input_dtype;
  if (dtype != decode::DType::kFloat32 && dtype != decode::DType::kBFloat16) {
    refuse("a model's inputs are float32 or bf16");
  }
  const std::size_t size = graph.parameters().padded_size();
  const bool fits = memory.parameters.size() == size &&
                    (memory.gradients.empty() || memory.gradients.size() == size) &&
                    memory.buffers.size() == graph.buffers().padded_size();
  if (!fits) refuse("the flat buffers do not fit the model's tables");
}

ImageLayout image_layout() { return {.block = usable_isa() >= Isa::kAvx512 ? 16 : 8}; }

Context make_context(const nn::PlanOptions& options) {
  Context context;
  const bool half = options.precision == nn::Precision::kBFloat16;
  context.type = half && nn::has_native_bfloat16() ? DataType::bf16 : DataType::f32;
  context.round_to_bfloat16 = half && !nn::has_native_bfloat16();
  context.layout = image_layout();
  context.batch_size = options.batch_size;
  return context;
}

nn::OutputView view_of(const dnnl::memory& memory) {
  const std::size_t count = memory.get_desc().get_size() / sizeof(float);
  return {dims_of(memory.get_desc()), {static_cast<float*>(memory.get_data_handle()), count}};
}

class CpuPlan final : public nn::Plan {
 public:
  CpuPlan(const nn::Graph& graph, const nn::PlanOptions& options, const nn::PlanMemory& memory)
      : context_(make_context(options)) {
    Lowering lowering(graph, options, memory, context_);
    lower(lowering);
    needed_ = lowering.needed_offsets(ops_.size());
    if (lowering.trains()) lower_backward(lowering);
    lowering.finish(memory_);
    for (const nn::Value input : graph.inputs()) {
      inputs_.push_back(lowering.given_input(input));
    }
    input_calls_ = lowering.take_input_calls();
    widenings_ = lowering.take_widenings();
    if (context_.round_to_bfloat16) collect_roundings(lowering);
  }

  void forward(std::span<const std::span<const std::byte>> inputs, nn::Mode mode,
               const nn::ParametersNeeded& needed) override {
    accept(inputs);
    pass_.mode = mode;
    for (const Lowering::Widening& input : widenings_) widen_bfloat16(input.from, input.to);
    for (const Call& call : input_calls_) call.run(context_);
    std::size_t told = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (needed_[i] < told && needed) needed(told = needed_[i]);
      if (!has_run_forward_) check_memory_for_code();
      ops_[i]->forward(pass_);
      round(round_forward_, i);
    }
    has_run_forward_ = true;
  }

  std::size_t num_outputs() const override { return outputs_.size(); }
  nn::OutputView output(std::size_t index) override {
    return view_of(outputs_.at(index)->output());
  }
  nn::OutputView output_gradient(std::size_t index) override {
    return view_of(outputs_.at(index)->gradient());
  }

  void backward(const std::function<void(std::size_t)>& ready) override {
    MILLRACE_CHECK(!ready_.empty(), "the plan was compiled without a gradient buffer");
    for (const std::span<float> values : without_gradient_) std::ranges::fill(values, 0.0F);
    std::size_t told = 0;
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (reached_[i]) {
        if (!has_run_backward_) check_memory_for_code();
        ops_[i]->backward();
        round(round_backward_, i);
      }
      if (ready_[i] > told && ready) ready(told = ready_[i]);
    }
    has_run_backward_ = true;
  }

  void parameters_changed() override {
    for (const OpPointer& op : ops_) op->parameters_changed();
  }
  void set_random_key(const nn::BatchKey& key) override { pass_.key = key; }
  std::size_t activation_bytes() const override { return memory_.arena.size(); }

 private:
  void lower(Lowering& lowering) {
    for (const nn::Group& group : nn::fuse(lowering.graph())) {
      lowering.set_step(ops_.size(), false);
      ops_.push_back(make_op(lowering, group));
      results_.push_back(group.result);
    }
    for (const nn::GraphOutput& output : lowering.graph().outputs()) {
      lowering.set_step(ops_.size(), false);
      auto op = make_output(lowering, output.value);
      outputs_.push_back(op.get());
      ops_.push_back(std::move(op));
    }
  }

  void lower_backward(Lowering& lowering) {
    reached_.assign(ops_.size(), true);
    for (std::size_t i = ops_.size(); i-- > 0;) {
      lowering.set_step(i, true);
      std::vector<Gradient> parts;
      if (i < results_.size()) {
        parts = lowering.take_gradients(results_[i]);
        reached_[i] = !parts.empty();
      }
      if (reached_[i]) ops_[i]->lower_backward(lowering, std::move(parts));
    }
    for (const std::size_t index : lowering.without_gradient()) {
      without_gradient_.push_back(lowering.gradient_values(index));
    }
    ready_ = lowering.ready_counts(ops_.size());
  }

  void collect_roundings(const Lowering& lowering) {
    round_forward_.resize(ops_.size());
    round_backward_.resize(ops_.size());
    for (const auto& result : lowering.forward_results()) {
      if (result.to_round) round_forward_[result.op].push_back(result.tensor.memory);
    }
    for (const auto& result : lowering.backward_results()) {
      if (result.to_round) round_backward_[result.op].push_back(result.tensor.memory);
    }
  }

  void accept(std::span<const std::span<const std::byte>> inputs) {
    if (inputs.size() != inputs_.size()) {
      refuse("the model has " + std::to_string(inputs_.size()) + " inputs, got " +
             std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t bytes = inputs_[i].get_desc().get_size();
      if (inputs[i].size() != bytes) {
        refuse("input " + std::to_string(i) + " has " + std::to_string(inputs[i].size()) +
               " bytes, the model takes " + std::to_string(bytes));
      }
      // oneDNN's handles are never const; a source is only read.
      inputs_[i].set_data_handle(const_cast<std::byte*>(inputs[i].data()));
    }
  }

  using Roundings = std::vector<std::vector<dnnl::memory>>;  // one list per op, or empty
  static void round(const Roundings& roundings, std::size_t op) {
    if (roundings.empty()) return;
    for (const dnnl::memory& memory : roundings[op]) round_to_bfloat16(memory);
  }

  Context context_;
  PlanMemory memory_;
  Pass pass_;
  // oneDNN generates some of its code, that of matrix products, as they first run.
  bool has_run_forward_ = false;
  bool has_run_backward_ = false;
  std::vector<OpPointer> ops_;
  std::vector<OutputOp*> outputs_;    // the last of ops_
  std::vector<std::size_t> results_;  // the node that each op computes, without the outputs
  std::vector<dnnl::memory> inputs_;
  std::vector<Lowering::Widening> widenings_;
  std::vector<Call> input_calls_;
  std::vector<bool> reached_;        // whether the op has a backward pass
  std::vector<std::size_t> needed_;  // the lowest offset that each op's forward pass reads
  std::vector<std::size_t> ready_;   // floats that are final after each op's backward pass
  std::vector<std::span<float>> without_gradient_;
  Roundings round_forward_, round_backward_;
};

}  // namespace
}  // namespace ops

namespace nn {

std::unique_ptr<Plan> compile(const Graph& graph, const PlanOptions& options,
                              const PlanMemory& memory) {
  ops::check(graph, options, memory);
  try {
    return std::make_unique<ops::CpuPlan>(graph, options, memory);
  } catch (const dnnl::error& problem) {
    ops::throw_onednn(problem.status, problem.what());
  }
}

bool has_native_bfloat16() { return ops::usable_isa() >= ops::Isa::kAvx512Bf16; }

std::string compute_library() {
  const dnnl::version_t& version = *dnnl::version();
  return fmt::format("oneDNN {}.{}.{}, {}", version.major, version.minor, version.patch,
                     ops::isa_name(ops::usable_isa()));
}

}  // namespace nn
}  // namespace millrace::trainer
