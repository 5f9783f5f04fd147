#include <algorithm>
#include <string_view>

#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weighted_op.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;

// The layer's shape in oneDNN's terms.
struct Geometry {
  Window window;
  Dims weights;
  FormatTag weights_tag;
  Dims bias;

  Geometry(const nn::Conv2d& layer, std::int64_t in_channels)
      : window{.strides = {layer.stride.height, layer.stride.width},
               .dilates = {layer.dilation.height - 1, layer.dilation.width - 1},
               .before = {layer.padding.height, layer.padding.width},
               .after = {layer.padding.height, layer.padding.width}},
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

// oneDNN has fast code for blocked images with a whole block of channels or more, and none for the
// backward pass from fewer to a plain image. So fewer channels are described to it as a whole
// block: those beyond the layer's own are zero, in images, weights and bias. Channels-last images
// have none beyond their own.
std::int64_t shown(const Context& context, std::int64_t channels, std::int64_t groups) {
  return groups == 1 ? std::max(channels, context.layout.block) : channels;
}

nn::Conv2d shown_layer(const Context& context, nn::Conv2d layer, bool raw) {
  if (raw) layer.channels = shown(context, layer.channels, layer.groups);
  return layer;
}

class Conv2dOp final : public WeightedOp {
 public:
  Conv2dOp(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer)
      : Conv2dOp(
            lowering, group, layer,
            Geometry(layer, lowering.graph().node(lowering.node(group.head).inputs[0]).shape[0])) {}

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    sum_gradients(lowering, std::move(parts), group().relu ? y_ : Tensor{});
    const Tensor dy = in_layout(lowering, as_shape(lowering, dy_.tensor(), out_shape_),
                                half(descriptor_.dst_desc()), backward());
    lower_weights(lowering, dy);
    if (lowering.wants_gradient(node().inputs[0])) lower_data(lowering, dy);
  }

 private:
  Conv2dOp(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer, const Geometry& own)
      : WeightedOp(lowering, group, "convolution", own.weights, own.weights_tag),
        raw_(lowering.raw_input(node().inputs[0])),
        in_shape_(lowering.graph().node(node().inputs[0]).shape),
        out_shape_(node().shape),
        geometry_(own) {
    if (!raw_) in_shape_[0] = shown(context(), in_shape_[0], layer.groups);
    if (raw_) out_shape_[0] = shown(context(), out_shape_[0], layer.groups);
    geometry_ = Geometry(shown_layer(context(), layer, static_cast<bool>(raw_)), in_shape_[0]);
    bias_ = bias_desc(geometry_.bias[0]);
    choose(lowering);
    lower_forward(lowering);
  }

  static Desc any(const Dims& dims, DataType type) { return {dims, type, FormatTag::any}; }
  Desc half(const Desc& desc) const {  // a float32 result's gradient has the plan's type
    return with_type(desc, context().type);
  }

  convolution_forward::primitive_desc describe(const Desc& x, const Desc& y) const {
    return convolution(context(), {x, any(geometry_.weights, context().type), bias_, y},
                       geometry_.window, group().relu);
  }

  template <typename PrimitiveDesc>
  static bool is_slow(const PrimitiveDesc& primitive) {
    return std::string_view(primitive.impl_info_str()).starts_with("ref");
  }

  // Blocked images in and out; oneDNN's own choice for the few channels of an input image, and if
  // it has no fast code for the blocked layout.
  void choose(Lowering& lowering) {
    const Desc x = context().image(in_shape_);
    const Desc y = context().image(out_shape_, result_type(lowering, group()));
    const Desc any_x = any(dims_of(x), type_of(x));
    descriptor_ = describe(raw_ ? any_x : x, y);
    if (!is_slow(descriptor_)) return;
    descriptor_ = describe(any_x, any(dims_of(y), type_of(y)));
  }

  void lower_forward(Lowering& lowering) {
    const Tensor x = raw_ ? raw_ : as_shape(lowering, lowering.value(node().inputs[0]), in_shape_);
    x_ = in_layout(lowering, x, descriptor_.src_desc(), forward());
    y_ = lowering.make(context().image(out_shape_, type_of(descriptor_.dst_desc())));
    const Tensor made = beside(lowering, y_, descriptor_.dst_desc());
    call_forward<convolution_forward>(lowering, descriptor_, x_, made, bias_);
    copy(made, y_, forward());
    lowering.set_value(group().result, as_shape(lowering, y_, node().shape));
  }

  // The same bytes described with more or fewer of the block's channels.
  static Tensor as_shape(Lowering& lowering, const Tensor& tensor, const nn::Shape& shape) {
    return lowering.view(tensor, lowering.context().image(shape, type_of(tensor.desc())));
  }

  // A primitive's output, which copy() then copies to `tensor`; `tensor` itself if the layouts
  // agree.
  static Tensor beside(Lowering& lowering, const Tensor& tensor, const Desc& made) {
    return tensor.desc() == made ? tensor : lowering.make(made);
  }
  void copy(const Tensor& from, const Tensor& to, Works& works) const {
    if (from.desc() != to.desc()) works.push_back(reorder_work(context(), from.memory, to.memory));
  }

  convolution_backward_weights::primitive_desc describe_weights(const Desc& x,
                                                                const Desc& dy) const {
    return convolution_weights(context(), {x, any(geometry_.weights, DataType::f32), bias_, dy},
                               geometry_.window, descriptor_);
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    auto descriptor = describe_weights(descriptor_.src_desc(), dy.desc());
    if (is_slow(descriptor)) {
      descriptor = describe_weights(any(dims_of(x_.desc()), context().type),
                                    any(dims_of(dy.desc()), context().type));
    }
    const Tensor x = in_layout(lowering, x_, descriptor.src_desc(), backward());
    const Tensor read = in_layout(lowering, dy, descriptor.diff_dst_desc(), backward());
    call_back_weights<convolution_backward_weights>(lowering, descriptor, x, read, bias_);
  }

  convolution_backward_data::primitive_desc describe_data(const Desc& dx, const Desc& dy) const {
    return convolution_data(context(), {dx, any(geometry_.weights, context().type), bias_, dy},
                            geometry_.window, descriptor_);
  }

  // oneDNN 2.6's code for 1x1 filters computes wrong gradients of channels-last images from an odd
  // number of channels.
  bool is_wrong(const convolution_backward_data::primitive_desc& primitive) const {
    return context().layout.channels_last() && out_shape_[0] % 2 == 1 &&
           std::string_view(primitive.impl_info_str()).starts_with("jit_bf16_1x1");
  }

  void lower_data(Lowering& lowering, const Tensor& dy) {
    auto descriptor = describe_data(descriptor_.src_desc(), dy.desc());
    const bool is_grouped = geometry_.weights.size() == 5;
    if (is_wrong(descriptor) || (is_grouped && is_slow(descriptor))) {
      descriptor = describe_data(any(dims_of(descriptor_.src_desc()), context().type),
                                 any(dims_of(dy.desc()), context().type));
    }
    const nn::Value input = node().inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const Tensor shown_dx = as_shape(lowering, dx, in_shape_);
    const Tensor made = beside(lowering, shown_dx, descriptor.diff_src_desc());
    const Tensor read = in_layout(lowering, dy, descriptor.diff_dst_desc(), backward());
    call_back_data<convolution_backward_data>(lowering, descriptor, read, made);
    copy(made, shown_dx, backward());
    lowering.add_gradient(input, dx);
  }

  Tensor raw_;                      // the input, if it is the graph's
  nn::Shape in_shape_, out_shape_;  // as described to oneDNN
  Geometry geometry_;               // likewise
  Desc bias_;
  convolution_forward::primitive_desc descriptor_;
  Tensor x_;  // in the primitive's layout
  Tensor y_;  // in the plan's
};

}  // namespace

OpPointer make_conv2d(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer) {
  return std::make_unique<Conv2dOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
