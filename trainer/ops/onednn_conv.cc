#include <string_view>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weights.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::algorithm;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::prop_kind;
using Dims = dnnl::memory::dims;

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!relu) return attr;
  dnnl::post_ops ops;
  ops.append_eltwise(1.0F, algorithm::eltwise_relu, 0.0F, 0.0F);
  attr.set_post_ops(ops);
  return attr;
}

// The layer in oneDNN's words.
struct Geometry {
  Dims strides;
  Dims dilates;
  Dims padding;
  Dims weights;
  FormatTag weights_tag;
  Dims bias;

  Geometry(const nn::Conv2d& layer, std::int64_t in_channels)
      : strides{layer.stride.height, layer.stride.width},
        dilates{layer.dilation.height - 1, layer.dilation.width - 1},
        padding{layer.padding.height, layer.padding.width},
        weights{layer.channels, in_channels / layer.groups, layer.kernel.height,
                layer.kernel.width},
        weights_tag(FormatTag::abcd),
        bias{layer.channels} {
    if (layer.groups == 1) return;
    weights[0] /= layer.groups;
    weights.insert(weights.begin(), layer.groups);
    weights_tag = FormatTag::abcde;
  }
};

class Conv2dOp final : public Op {
 public:
  Conv2dOp(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer)
      : backend_(lowering.backend()),
        group_(group),
        node_(lowering.node(group.head)),
        geometry_(layer, lowering.graph().node(node_.inputs[0]).shape[0]) {
    choose(lowering);
    lower_forward(lowering);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts), group_.relu ? y_ : Tensor{});
    const Tensor dy =
        in_layout(lowering, dy_.tensor(), half(primitive_desc_.dst_desc()), bring_dy_);
    lower_weights(lowering, dy);
    if (lowering.wants_gradient(node_.inputs[0])) lower_data(lowering, dy);
  }

  void parameters_changed() override {
    weights_.parameters_changed();
    weights_back_.parameters_changed();
  }

  void forward(const Pass&) override {
    weights_.refresh(backend_);
    for (const Call* call : {&bring_x_, &convolve_, &send_y_}) {
      if (*call) call->run(backend_);
    }
  }

  void backward() override {
    dy_.run();
    if (bring_dy_) bring_dy_.run(backend_);
    back_weights_.run(backend_);
    weight_gradient_.finish(backend_);
    if (!back_data_) return;
    weights_back_.refresh(backend_);
    back_data_.run(backend_);
    if (send_dx_) send_dx_.run(backend_);
  }

 private:
  Desc any(const Dims& dims, DataType type) const { return {dims, type, FormatTag::any}; }
  Desc half(const Desc& desc) const {  // a float32 result's gradient has the plan's type
    Desc copy = desc;
    copy.data.data_type = dnnl::memory::convert_to_c(backend_.type);
    return copy;
  }
  Desc bias_desc() const {
    if (node_.bias == nn::kNoParameter) return {};
    return {geometry_.bias, DataType::f32, FormatTag::a};
  }

  convolution_forward::primitive_desc describe(const Desc& x, const Desc& y) const {
    const convolution_forward::desc desc(prop_kind::forward_training, algorithm::convolution_direct,
                                         x, any(geometry_.weights, backend_.type), bias_desc(), y,
                                         geometry_.strides, geometry_.dilates, geometry_.padding,
                                         geometry_.padding);
    return {desc, attributes(group_.relu), backend_.engine};
  }

  // Blocked images in and out; oneDNN's own choice for the few channels of an input image, and
  // where it has no fast code for the blocked form.
  void choose(Lowering& lowering) {
    const nn::Value input = node_.inputs[0];
    const nn::Shape& in = lowering.graph().node(input).shape;
    const Desc x = backend_.image(in);
    Desc y = backend_.image(node_.shape);
    y.data.data_type = dnnl::memory::convert_to_c(result_type(lowering, group_));
    const bool raw = static_cast<bool>(lowering.raw_input(input));
    primitive_desc_ = describe(raw ? any(x.dims(), x.data_type()) : x, y);
    const std::string_view chosen = primitive_desc_.impl_info_str();
    if (!chosen.starts_with("ref")) return;
    primitive_desc_ = describe(any(x.dims(), x.data_type()), any(y.dims(), y.data_type()));
  }

  void lower_forward(Lowering& lowering) {
    const nn::Value input = node_.inputs[0];
    const Tensor raw = lowering.raw_input(input);
    x_ = in_layout(lowering, raw ? raw : lowering.value(input), primitive_desc_.src_desc(),
                   bring_x_);
    Desc layout = backend_.image(node_.shape);
    layout.data.data_type = primitive_desc_.dst_desc().data.data_type;
    y_ = lowering.make(layout);
    const Tensor made = out_of_layout(lowering, y_, primitive_desc_.dst_desc(), send_y_);
    weights_ = PreparedWeights(lowering, master(lowering), primitive_desc_.weights_desc());
    convolve_ =
        Call(convolution_forward(primitive_desc_),
             {{DNNL_ARG_SRC, x_.memory},
              {DNNL_ARG_WEIGHTS, weights_.memory()},
              {DNNL_ARG_BIAS, bias(lowering)},
              {DNNL_ARG_DST, made.memory},
              {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group_.result, y_);
  }

  dnnl::memory master(Lowering& lowering) const {
    return lowering.parameter(node_.weight, geometry_.weights, geometry_.weights_tag);
  }
  dnnl::memory bias(Lowering& lowering) const {
    if (node_.bias == nn::kNoParameter) return {};
    return lowering.parameter(node_.bias, geometry_.bias, FormatTag::a);
  }

  // `tensor`, or a copy in the layout that the primitive reads.
  Tensor in_layout(Lowering& lowering, const Tensor& tensor, const Desc& wanted, Call& copy) {
    if (tensor.desc() == wanted) return tensor;
    Tensor other = lowering.make(wanted);
    copy = reorder_call(tensor.memory, other.memory);
    return other;
  }
  // Where the primitive writes what is then copied to `tensor`.
  Tensor out_of_layout(Lowering& lowering, const Tensor& tensor, const Desc& made, Call& copy) {
    if (tensor.desc() == made) return tensor;
    Tensor other = lowering.make(made);
    copy = reorder_call(other.memory, tensor.memory);
    return other;
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    const convolution_backward_weights::desc desc(
        algorithm::convolution_direct, x_.desc(), any(geometry_.weights, DataType::f32),
        bias_desc(), dy.desc(), geometry_.strides, geometry_.dilates, geometry_.padding,
        geometry_.padding);
    const convolution_backward_weights::primitive_desc primitive(desc, attributes(false),
                                                                 backend_.engine, primitive_desc_);
    weight_gradient_ = WeightGradient(
        lowering, lowering.gradient(node_.weight, geometry_.weights, geometry_.weights_tag),
        primitive.diff_weights_desc());
    dnnl::memory bias_gradient;
    if (node_.bias != nn::kNoParameter) {
      bias_gradient = lowering.gradient(node_.bias, geometry_.bias, FormatTag::a);
    }
    back_weights_ = Call(convolution_backward_weights(primitive),
                         {{DNNL_ARG_SRC, x_.memory},
                          {DNNL_ARG_DIFF_DST, dy.memory},
                          {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                          {DNNL_ARG_DIFF_BIAS, bias_gradient},
                          {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
  }

  void lower_data(Lowering& lowering, const Tensor& dy) {
    const convolution_backward_data::desc desc(
        algorithm::convolution_direct, x_.desc(), any(geometry_.weights, backend_.type), dy.desc(),
        geometry_.strides, geometry_.dilates, geometry_.padding, geometry_.padding);
    const convolution_backward_data::primitive_desc primitive(desc, attributes(false),
                                                              backend_.engine, primitive_desc_);
    weights_back_ = PreparedWeights(lowering, master(lowering), primitive.weights_desc());
    const nn::Value input = node_.inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const Tensor made = out_of_layout(lowering, dx, x_.desc(), send_dx_);
    back_data_ = Call(convolution_backward_data(primitive),
                      {{DNNL_ARG_DIFF_DST, dy.memory},
                       {DNNL_ARG_WEIGHTS, weights_back_.memory()},
                       {DNNL_ARG_DIFF_SRC, made.memory},
                       {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    lowering.add_gradient(input, dx);
  }

  const Backend& backend_;
  nn::Group group_;
  const nn::Node& node_;
  Geometry geometry_;
  convolution_forward::primitive_desc primitive_desc_;

  Tensor x_;  // in the primitive's layout
  Tensor y_;  // in the plan's
  PreparedWeights weights_;
  Call bring_x_, convolve_, send_y_;

  GradientSum dy_;
  WeightGradient weight_gradient_;
  PreparedWeights weights_back_;
  Call bring_dy_, back_weights_, back_data_, send_dx_;
};

}  // namespace

OpPointer make_conv2d(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer) {
  return std::make_unique<Conv2dOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
