#include <algorithm>
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

// oneDNN has fast code for blocked images of a block's channels or more, and none for the way back
// from fewer to a plain image's. So what has fewer is shown to it as a whole block: the channels
// beyond the layer's own are zero, in images, weights and bias.
std::int64_t shown(const Backend& backend, std::int64_t channels, std::int64_t groups) {
  return groups == 1 && channels < backend.channel_block ? backend.channel_block : channels;
}

nn::Conv2d shown_layer(const Backend& backend, nn::Conv2d layer, bool raw) {
  if (raw) layer.channels = shown(backend, layer.channels, layer.groups);
  return layer;
}

class Conv2dOp final : public Op {
 public:
  Conv2dOp(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer)
      : backend_(lowering.backend()),
        group_(group),
        node_(lowering.node(group.head)),
        raw_(lowering.raw_input(node_.inputs[0])),
        in_shape_(lowering.graph().node(node_.inputs[0]).shape),
        out_shape_(node_.shape),
        master_(layer, in_shape_[0]),
        geometry_(master_) {
    if (!raw_) in_shape_[0] = shown(backend_, in_shape_[0], layer.groups);
    if (raw_) out_shape_[0] = shown(backend_, out_shape_[0], layer.groups);
    geometry_ = Geometry(shown_layer(backend_, layer, static_cast<bool>(raw_)), in_shape_[0]);
    choose(lowering);
    lower_forward(lowering);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts), group_.relu ? y_ : Tensor{});
    const Tensor dy = in_layout(lowering, as_shape(lowering, dy_.tensor(), out_shape_),
                                half(primitive_desc_.dst_desc()), bring_dy_);
    lower_weights(lowering, dy);
    if (lowering.wants_gradient(node_.inputs[0])) lower_data(lowering, dy);
  }

  void parameters_changed() override {
    weights_.parameters_changed();
    bias_.parameters_changed();
    weights_back_.parameters_changed();
  }

  void forward(const Pass&) override {
    weights_.refresh(backend_);
    bias_.refresh(backend_);
    for (const Call* call : {&bring_x_, &convolve_, &send_y_}) {
      if (*call) call->run(backend_);
    }
  }

  void backward() override {
    dy_.run();
    for (const Call* call : {&bring_dy_, &bring_x_back_, &bring_dy_again_, &back_weights_}) {
      if (*call) call->run(backend_);
    }
    weight_gradient_.finish(backend_);
    bias_gradient_.finish(backend_);
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

  template <typename PrimitiveDesc>
  static bool is_slow(const PrimitiveDesc& primitive) {
    return std::string_view(primitive.impl_info_str()).starts_with("ref");
  }

  // Blocked images in and out; oneDNN's own choice for the few channels of an input image, and
  // where it has no fast code for the blocked form.
  void choose(Lowering& lowering) {
    const Desc x = backend_.image(in_shape_);
    Desc y = backend_.image(out_shape_);
    y.data.data_type = dnnl::memory::convert_to_c(result_type(lowering, group_));
    primitive_desc_ = describe(raw_ ? any(x.dims(), x.data_type()) : x, y);
    if (!is_slow(primitive_desc_)) return;
    primitive_desc_ = describe(any(x.dims(), x.data_type()), any(y.dims(), y.data_type()));
  }

  void lower_forward(Lowering& lowering) {
    x_ = raw_ ? in_layout(lowering, raw_, primitive_desc_.src_desc(), bring_x_)
              : from_value(lowering);
    Desc layout = backend_.image(out_shape_);
    layout.data.data_type = primitive_desc_.dst_desc().data.data_type;
    y_ = lowering.make(layout);
    const Tensor made = out_of_layout(lowering, y_, primitive_desc_.dst_desc(), send_y_);
    lower_bias(lowering);
    weights_ = PreparedWeights(lowering, master(lowering), primitive_desc_.weights_desc());
    convolve_ =
        Call(convolution_forward(primitive_desc_),
             {{DNNL_ARG_SRC, x_.memory},
              {DNNL_ARG_WEIGHTS, weights_.memory()},
              {DNNL_ARG_BIAS, bias_.memory()},
              {DNNL_ARG_DST, made.memory},
              {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group_.result, as_shape(lowering, y_, node_.shape));
  }

  Tensor from_value(Lowering& lowering) {
    const Tensor x = as_shape(lowering, lowering.value(node_.inputs[0]), in_shape_);
    return in_layout(lowering, x, primitive_desc_.src_desc(), bring_x_);
  }

  // The same bytes with more or fewer of the block's channels shown.
  static Tensor as_shape(Lowering& lowering, const Tensor& tensor, const nn::Shape& shape) {
    Desc desc = lowering.backend().image(shape);
    desc.data.data_type = tensor.desc().data.data_type;
    return lowering.view(tensor, desc);
  }

  dnnl::memory master(Lowering& lowering) const {
    return lowering.parameter(node_.weight, master_.weights, master_.weights_tag);
  }
  void lower_bias(Lowering& lowering) {
    if (node_.bias == nn::kNoParameter) return;
    bias_ = PreparedWeights(lowering, lowering.parameter(node_.bias, master_.bias, FormatTag::a),
                            bias_desc());
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

  convolution_backward_weights::primitive_desc describe_weights(const Desc& x,
                                                                const Desc& dy) const {
    const convolution_backward_weights::desc desc(
        algorithm::convolution_direct, x, any(geometry_.weights, DataType::f32), bias_desc(), dy,
        geometry_.strides, geometry_.dilates, geometry_.padding, geometry_.padding);
    return {desc, attributes(false), backend_.engine, primitive_desc_};
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    auto primitive = describe_weights(primitive_desc_.src_desc(), dy.desc());
    if (is_slow(primitive)) {
      primitive = describe_weights(any(x_.desc().dims(), backend_.type),
                                   any(dy.desc().dims(), backend_.type));
    }
    const Tensor x = in_layout(lowering, x_, primitive.src_desc(), bring_x_back_);
    const Tensor read = in_layout(lowering, dy, primitive.diff_dst_desc(), bring_dy_again_);
    weight_gradient_ =
        WeightGradient(lowering, {node_.weight, master_.weights, master_.weights_tag},
                       primitive.diff_weights_desc());
    if (node_.bias != nn::kNoParameter) {
      bias_gradient_ =
          WeightGradient(lowering, {node_.bias, master_.bias, FormatTag::a}, bias_desc());
    }
    back_weights_ = Call(convolution_backward_weights(primitive),
                         {{DNNL_ARG_SRC, x.memory},
                          {DNNL_ARG_DIFF_DST, read.memory},
                          {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                          {DNNL_ARG_DIFF_BIAS, bias_gradient_.memory()},
                          {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
  }

  void lower_data(Lowering& lowering, const Tensor& dy) {
    const convolution_backward_data::desc desc(
        algorithm::convolution_direct, primitive_desc_.src_desc(),
        any(geometry_.weights, backend_.type), dy.desc(), geometry_.strides, geometry_.dilates,
        geometry_.padding, geometry_.padding);
    const convolution_backward_data::primitive_desc primitive(desc, attributes(false),
                                                              backend_.engine, primitive_desc_);
    weights_back_ = PreparedWeights(lowering, master(lowering), primitive.weights_desc());
    const nn::Value input = node_.inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const Tensor made = out_of_layout(lowering, as_shape(lowering, dx, in_shape_),
                                      primitive_desc_.src_desc(), send_dx_);
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
  Tensor raw_;                      // the input, where it is the graph's own
  nn::Shape in_shape_, out_shape_;  // as oneDNN sees them
  Geometry master_;                 // the layer's own
  Geometry geometry_;               // as oneDNN sees it
  convolution_forward::primitive_desc primitive_desc_;

  Tensor x_;  // in the primitive's layout
  Tensor y_;  // in the plan's
  PreparedWeights weights_, bias_;
  Call bring_x_, convolve_, send_y_;

  GradientSum dy_;
  WeightGradient weight_gradient_, bias_gradient_;
  PreparedWeights weights_back_;
  Call bring_dy_, bring_x_back_, bring_dy_again_, back_weights_, back_data_, send_dx_;
};

}  // namespace

OpPointer make_conv2d(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer) {
  return std::make_unique<Conv2dOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
