// The CPU's Plan: ops of oneDNN and of millrace's own loops, run forward in order and backward in
// reverse.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/nn/fusion.h"
#include "trainer/nn/plan.h"
#include "trainer/ops/detail/image_layout.h"
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

Context make_context(const nn::Graph& graph, const nn::PlanOptions& options) {
  Context context;
  const bool half = options.precision == nn::Precision::kBFloat16;
  context.type = half && nn::has_native_bfloat16() ? DataType::bf16 : DataType::f32;
  context.round_to_bfloat16 = half && !nn::has_native_bfloat16();
  context.layout = image_layout(graph, context.type == DataType::bf16);
  context.batch_size = options.batch_size;
  return context;
}

nn::OutputView view_of(const dnnl::memory& memory) {
  const std::size_t count = memory.get_desc().get_size() / sizeof(float);
  return {dims_of(memory.get_desc()), {static_cast<float*>(memory.get_data_handle()), count}};
}

// Without the parts in front that it has in common with `first`: "relu1" beside "layer1.0.bn1".
std::string_view own_part(const std::string& name, const std::string& first) {
  const auto differs = std::ranges::mismatch(name, first).in1 - name.begin();
  const std::size_t dot = name.substr(0, static_cast<std::size_t>(differs)).rfind('.');
  return std::string_view(name).substr(dot == std::string::npos ? 0 : dot + 1);
}

// "layer1.0.bn1 + relu1".
std::string layer_text(const nn::Graph& graph, const nn::Group& group) {
  const std::string& head = graph.nodes()[group.head].name;
  std::string text = head;
  const auto append = [&](const nn::Node& node) {
    text.append(" + ").append(own_part(node.name, head));
  };
  const nn::Node& result = graph.nodes()[group.result];
  if (group.residual && group.relu) append(graph.node(result.inputs[0]));
  if (group.result != group.head) append(result);
  return text;
}

// Whose step it is.
struct LayerName {
  std::string text;
  nn::Shape input, output;
};

LayerName name_of(const nn::Graph& graph, const nn::Group& group) {
  const nn::Node& head = graph.nodes()[group.head];
  return {layer_text(graph, group), graph.node(head.inputs[0]).shape, head.shape};
}

LayerName name_of(const std::string& name, const nn::Shape& shape) { return {name, shape, shape}; }

class CpuPlan final : public nn::Plan {
 public:
  CpuPlan(const nn::Graph& graph, const nn::PlanOptions& options, const nn::PlanMemory& memory)
      : context_(make_context(graph, options)) {
    Lowering lowering(graph, options, memory, context_);
    lower(lowering);
    needed_ = lowering.needed_offsets(ops_.size());
    if (lowering.trains()) lower_backward(lowering);
    lowering.finish(memory_);
    for (const nn::Value input : graph.inputs()) {
      inputs_.push_back(lowering.given_input(input));
    }
    for (Lowering::InputWorks& input : lowering.take_input_works()) {
      const nn::Node& node = graph.nodes()[input.node];
      inputs_to_plan_.push_back({name_of(node.name, node.shape), std::move(input.works)});
    }
    if (context_.round_to_bfloat16) add_roundings(lowering);
    num_forward_steps_ = describe_forward().size();
  }

  void forward(std::span<const std::span<const std::byte>> inputs, nn::Mode mode,
               const nn::ParametersNeeded& needed) override {
    accept(inputs);
    pass_.mode = mode;
    timed_ = 0;
    for (const Named& input : inputs_to_plan_) run(input.works);
    std::size_t told = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (needed_[i] < told && needed) needed(told = needed_[i]);
      if (!has_run_forward_) check_memory_for_code();
      run(ops_[i]->forward());
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
    timed_ = num_forward_steps_;
    for (const Named& fill : without_gradient_) run(fill.works);
    std::size_t told = 0;
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (reached_[i]) {
        if (!has_run_backward_) check_memory_for_code();
        run(ops_[i]->backward());
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

  std::vector<nn::PlanStep> describe() const override {
    std::vector<nn::PlanStep> steps = describe_forward();
    for (const Named& fill : without_gradient_)
      describe(fill.name, fill.works, nn::PlanPass::kBackward, steps);
    for (std::size_t i = reached_.size(); i-- > 0;) {
      if (reached_[i]) describe(names_[i], ops_[i]->backward(), nn::PlanPass::kBackward, steps);
    }
    return steps;
  }

  void time_into(std::span<double> seconds) override {
    MILLRACE_CHECK(seconds.empty() || seconds.size() == describe().size(), "one for each step");
    seconds_ = seconds;
  }

 private:
  struct Named {
    LayerName name;
    Works works;
  };

  static void describe(const LayerName& name, const Works& works, nn::PlanPass pass,
                       std::vector<nn::PlanStep>& steps) {
    for (const Work& work : works) {
      nn::PlanStep& step = steps.emplace_back(work.about);
      step.layer = name.text;
      step.input = name.input;
      step.output = name.output;
      step.pass = pass;
    }
  }

  std::vector<nn::PlanStep> describe_forward() const {
    std::vector<nn::PlanStep> steps;
    for (const Named& input : inputs_to_plan_)
      describe(input.name, input.works, nn::PlanPass::kForward, steps);
    for (std::size_t i = 0; i < ops_.size(); ++i)
      describe(names_[i], ops_[i]->forward(), nn::PlanPass::kForward, steps);
    return steps;
  }

  void run(const Works& works) {
    if (!seconds_.empty()) return run_timed(works);
    for (const Work& work : works) work.run(pass_);
  }

  void run_timed(const Works& works) {
    using Clock = std::chrono::steady_clock;
    for (const Work& work : works) {
      const Clock::time_point start = Clock::now();
      work.run(pass_);
      seconds_[timed_++] = std::chrono::duration<double>(Clock::now() - start).count();
    }
  }

  void lower(Lowering& lowering) {
    for (const nn::Group& group : nn::fuse(lowering.graph())) {
      lowering.set_step(ops_.size(), false);
      ops_.push_back(make_op(lowering, group));
      results_.push_back(group.result);
      names_.push_back(name_of(lowering.graph(), group));
    }
    for (const nn::GraphOutput& output : lowering.graph().outputs()) {
      lowering.set_step(ops_.size(), false);
      auto op = make_output(lowering, output.value);
      outputs_.push_back(op.get());
      ops_.push_back(std::move(op));
      names_.push_back(name_of(output.name, lowering.graph().node(output.value).shape));
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
    for (const std::size_t index : lowering.without_gradient()) add_fill(lowering, index);
    ready_ = lowering.ready_counts(ops_.size());
  }

  void add_fill(Lowering& lowering, std::size_t index) {
    const std::span<float> values = lowering.gradient_values(index);
    const Parameter& parameter = lowering.graph().parameters().entries()[index];
    Work fill = loop_work("fill", {}, [values](const Pass&) { std::ranges::fill(values, 0.0F); });
    fill.about.bytes = static_cast<double>(values.size_bytes());
    without_gradient_.push_back({name_of(parameter.name, parameter.shape), {std::move(fill)}});
  }

  void add_roundings(const Lowering& lowering) {
    for (const auto& result : lowering.forward_results()) {
      if (result.to_round)
        ops_[result.op]->forward().push_back(rounding_work(result.tensor.memory));
    }
    for (const auto& result : lowering.backward_results()) {
      if (result.to_round)
        ops_[result.op]->backward().push_back(rounding_work(result.tensor.memory));
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

  Context context_;
  OwnedMemory memory_;
  Pass pass_;
  // oneDNN generates some of its code, that of matrix products, as they first run.
  bool has_run_forward_ = false;
  bool has_run_backward_ = false;
  std::vector<OpPointer> ops_;
  std::vector<OutputOp*> outputs_;    // the last of ops_
  std::vector<std::size_t> results_;  // the node that each op computes, without the outputs
  std::vector<LayerName> names_;      // of each op
  std::vector<dnnl::memory> inputs_;
  std::vector<Named> inputs_to_plan_;  // before the ops
  std::vector<bool> reached_;          // whether the op has a backward pass
  std::vector<std::size_t> needed_;    // the lowest offset that each op's forward pass reads
  std::vector<std::size_t> ready_;     // floats that are final after each op's backward pass
  std::vector<Named> without_gradient_;
  std::size_t num_forward_steps_ = 0;
  std::span<double> seconds_;  // of each step, if they are timed
  std::size_t timed_ = 0;      // the next of them
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
