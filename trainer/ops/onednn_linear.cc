#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weights.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using Dims = dnnl::memory::dims;

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!relu) return attr;
  dnnl::post_ops ops;
  ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  attr.set_post_ops(ops);
  return attr;
}

class LinearOp final : public Op {
 public:
  LinearOp(Lowering& lowering, const nn::Group& group, const nn::Linear& layer)
      : backend_(lowering.backend()),
        group_(group),
        node_(lowering.node(group.head)),
        weights_dims_{layer.features, lowering.graph().node(node_.inputs[0]).shape[0]} {
    lower_forward(lowering);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts), group_.relu ? y_ : Tensor{});
    lower_weights(lowering, dy_.tensor());
    if (lowering.wants_gradient(node_.inputs[0])) lower_data(lowering, dy_.tensor());
  }

  void parameters_changed() override {
    weights_.parameters_changed();
    weights_back_.parameters_changed();
  }

  void forward(const Pass&) override {
    weights_.refresh(backend_);
    multiply_.run(backend_);
  }

  void backward() override {
    dy_.run();
    back_weights_.run(backend_);
    weight_gradient_.finish(backend_);
    bias_gradient_.finish(backend_);
    if (!back_data_) return;
    weights_back_.refresh(backend_);
    back_data_.run(backend_);
  }

 private:
  Desc any_weights(DataType type) const { return {weights_dims_, type, FormatTag::any}; }
  Dims bias_dims() const { return {weights_dims_[0]}; }
  Desc bias_desc() const {
    if (node_.bias == nn::kNoParameter) return {};
    return {bias_dims(), DataType::f32, FormatTag::a};
  }
  dnnl::memory master(Lowering& lowering) const {
    return lowering.parameter(node_.weight, weights_dims_, FormatTag::ab);
  }

  void lower_forward(Lowering& lowering) {
    x_ = lowering.value(node_.inputs[0]);
    y_ = lowering.make(
        {{backend_.batch_size, weights_dims_[0]}, result_type(lowering, group_), FormatTag::ab});
    const inner_product_forward::desc desc(dnnl::prop_kind::forward_training, x_.desc(),
                                           any_weights(backend_.type), bias_desc(), y_.desc());
    primitive_desc_ = {desc, attributes(group_.relu), backend_.engine};
    weights_ = PreparedWeights(lowering, master(lowering), primitive_desc_.weights_desc());
    dnnl::memory bias;
    if (node_.bias != nn::kNoParameter) {
      bias = lowering.parameter(node_.bias, bias_dims(), FormatTag::a);
    }
    multiply_ =
        Call(inner_product_forward(primitive_desc_),
             {{DNNL_ARG_SRC, x_.memory},
              {DNNL_ARG_WEIGHTS, weights_.memory()},
              {DNNL_ARG_BIAS, bias},
              {DNNL_ARG_DST, y_.memory},
              {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group_.result, y_);
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    const inner_product_backward_weights::desc desc(x_.desc(), any_weights(DataType::f32),
                                                    bias_desc(), dy.desc());
    const inner_product_backward_weights::primitive_desc primitive(
        desc, attributes(false), backend_.engine, primitive_desc_);
    weight_gradient_ = WeightGradient(lowering, {node_.weight, weights_dims_, FormatTag::ab},
                                      primitive.diff_weights_desc());
    if (node_.bias != nn::kNoParameter) {
      bias_gradient_ =
          WeightGradient(lowering, {node_.bias, bias_dims(), FormatTag::a}, bias_desc());
    }
    back_weights_ = Call(inner_product_backward_weights(primitive),
                         {{DNNL_ARG_SRC, x_.memory},
                          {DNNL_ARG_DIFF_DST, dy.memory},
                          {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                          {DNNL_ARG_DIFF_BIAS, bias_gradient_.memory()},
                          {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
  }

  void lower_data(Lowering& lowering, const Tensor& dy) {
    const nn::Value input = node_.inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const inner_product_backward_data::desc desc(dx.desc(), any_weights(backend_.type), dy.desc());
    const inner_product_backward_data::primitive_desc primitive(desc, attributes(false),
                                                                backend_.engine, primitive_desc_);
    weights_back_ = PreparedWeights(lowering, master(lowering), primitive.weights_desc());
    back_data_ = Call(inner_product_backward_data(primitive),
                      {{DNNL_ARG_DIFF_DST, dy.memory},
                       {DNNL_ARG_WEIGHTS, weights_back_.memory()},
                       {DNNL_ARG_DIFF_SRC, dx.memory},
                       {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    lowering.add_gradient(input, dx);
  }

  const Backend& backend_;
  nn::Group group_;
  const nn::Node& node_;
  Dims weights_dims_;
  inner_product_forward::primitive_desc primitive_desc_;

  Tensor x_;
  Tensor y_;
  PreparedWeights weights_;
  Call multiply_;

  GradientSum dy_;
  WeightGradient weight_gradient_, bias_gradient_;
  PreparedWeights weights_back_;
  Call back_weights_, back_data_;
};

}  // namespace

OpPointer make_linear(Lowering& lowering, const nn::Group& group, const nn::Linear& layer) {
  return std::make_unique<LinearOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
