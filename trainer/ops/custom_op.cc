// A layer of a program's own: its values are copied to plain order in float32 and back.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "trainer/detail/flat_math.h"
#include "trainer/nn/custom_layer.h"
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

Desc dense(const Desc& desc) {
  const Dims dims = dims_of(desc);
  return {dims, DataType::f32, dims.size() == 4 ? FormatTag::abcd : FormatTag::ab};
}

std::span<float> values_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {static_cast<float*>(tensor.data()), tensor.desc().get_size() / sizeof(float)};
}

// A parameter as the layer reads it, and its gradient.
class CustomWeights {
 public:
  CustomWeights() = default;
  CustomWeights(Lowering& lowering, std::size_t index)
      : index_(index), master_(lowering.parameter_values(index)) {
    const Context& context = lowering.context();
    const bool half = context.type == DataType::bf16 || context.round_to_bfloat16;
    const bool matrix = lowering.graph().parameters().entries()[index].shape.size() > 1;
    if (half && matrix) rounded_.resize(master_.size());
  }

  void lower_backward(Lowering& lowering) {
    if (master_.empty()) return;
    if (!lowering.is_first_gradient(index_)) part_.resize(master_.size());
    gradient_ = lowering.gradient_values(index_);
  }
  void parameters_changed() { stale_ = true; }
  /// Rounds the weights, if a plan reads them so and they have changed.
  void add_to(Works& works) {
    if (rounded_.empty()) return;
    Work work = loop_work("rounding", {}, [this](const Pass&) { read(); });
    work.about.part = "W";
    work.about.bytes = 2.0 * static_cast<double>(rounded_.size() * sizeof(float));
    works.push_back(std::move(work));
  }
  nn::ConstValues read() {
    if (rounded_.empty()) return master_;
    if (std::exchange(stale_, false)) {
      std::ranges::copy(master_, rounded_.begin());
      flat::round_to_bf16(rounded_);
    }
    return rounded_;
  }
  std::span<float> gradient() { return part_.empty() ? gradient_ : part_; }
  /// Another layer that shares the parameter has written its part of the gradient before.
  void finish() {
    for (std::size_t i = 0; i < part_.size(); ++i) gradient_[i] += part_[i];
  }

 private:
  std::size_t index_ = nn::kNoParameter;
  nn::ConstValues master_;
  std::vector<float> rounded_;
  bool stale_ = true;
  std::span<float> gradient_;
  std::vector<float> part_;
};

class CustomOp final : public Op {
 public:
  CustomOp(Lowering& lowering, const nn::Group& group, const nn::Custom& layer)
      : context_(lowering.context()),
        layer_(*layer.layer),
        inputs_(lowering.node(group.head).inputs) {
    const nn::Node& node = lowering.node(group.head);
    for (const nn::Value input : inputs_) {
      const Tensor x = lowering.value(input);
      x_.push_back(lowering.make(dense(x.desc())));
      forward().push_back(reorder_work(context_, x.memory, x_.back().memory));
    }
    const Tensor y = lowering.make(lowering.gradient_desc({group.result}));
    y_ = lowering.make(dense(y.desc()));
    if (node.weight != nn::kNoParameter) weight_ = CustomWeights(lowering, node.weight);
    if (node.bias != nn::kNoParameter) bias_ = CustomWeights(lowering, node.bias);
    weight_.add_to(forward());
    bias_.add_to(forward());
    forward().push_back(layer_work(x_, {y_}, [this](const Pass& pass) { compute(pass); }));
    forward().push_back(reorder_work(context_, y_.memory, y.memory));
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    for (const Tensor& x : x_) lowering.use(x);
    lowering.use(y_);
    const GradientSum sum(lowering, std::move(parts));
    sum.add_to(backward());
    dy_ = lowering.make(dense(sum.tensor().desc()));
    backward().push_back(reorder_work(context_, sum.tensor().memory, dy_.memory));
    dx_.resize(inputs_.size());
    Works after;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!lowering.wants_gradient(inputs_[i])) continue;
      const Tensor dx = lowering.make(lowering.gradient_desc(inputs_[i]));
      dx_[i] = lowering.make(dense(dx.desc()));
      after.push_back(reorder_work(context_, dx_[i].memory, dx.memory));
      lowering.add_gradient(inputs_[i], dx);
    }
    weight_.lower_backward(lowering);
    bias_.lower_backward(lowering);
    std::vector<Tensor> read = x_;
    read.insert(read.end(), {y_, dy_});
    backward().push_back(layer_work(read, dx_, [this](const Pass&) { compute_back(); }));
    std::ranges::move(after, std::back_inserter(backward()));
  }

  void parameters_changed() override {
    weight_.parameters_changed();
    bias_.parameters_changed();
  }

 private:
  Work layer_work(std::vector<Tensor> arrays, const std::vector<Tensor>& written,
                  std::function<void(const Pass&)> run) const {
    arrays.insert(arrays.end(), written.begin(), written.end());
    std::vector<dnnl::memory> memories;
    for (const Tensor& array : arrays) memories.push_back(array.memory);
    Work work = loop_work(layer_.kind(), memories, std::move(run));
    work.about.kernel = "own";
    return work;
  }

  void compute(const Pass& pass) {
    const std::vector<nn::ConstValues> inputs = read_inputs();
    layer_.forward({.samples = context_.batch_size,
                    .training = pass.mode == nn::Mode::kTrain,
                    .inputs = inputs,
                    .weight = weight_.read(),
                    .bias = bias_.read(),
                    .output = values_of(y_)});
  }

  void compute_back() {
    const std::vector<nn::ConstValues> inputs = read_inputs();
    std::vector<std::span<float>> input_gradients;
    for (const Tensor& dx : dx_) input_gradients.push_back(values_of(dx));
    layer_.backward({.samples = context_.batch_size,
                     .inputs = inputs,
                     .weight = weight_.read(),
                     .bias = bias_.read(),
                     .output = values_of(y_),
                     .output_gradient = values_of(dy_),
                     .input_gradients = input_gradients,
                     .weight_gradient = weight_.gradient(),
                     .bias_gradient = bias_.gradient()});
    weight_.finish();
    bias_.finish();
  }

  std::vector<nn::ConstValues> read_inputs() const {
    std::vector<nn::ConstValues> inputs;
    for (const Tensor& x : x_) inputs.emplace_back(values_of(x));
    return inputs;
  }

  const Context& context_;
  const nn::CustomLayer& layer_;
  std::vector<nn::Value> inputs_;
  CustomWeights weight_, bias_;
  std::vector<Tensor> x_, dx_;  // in plain order, as y_ and dy_
  Tensor y_, dy_;
};

}  // namespace

OpPointer make_custom(Lowering& lowering, const nn::Group& group, const nn::Custom& layer) {
  return std::make_unique<CustomOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
