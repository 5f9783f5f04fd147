// Transposed convolution: oneDNN's deconvolution, whose weights are PyTorch's with the first two
// axes exchanged.
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weighted_op.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::deconvolution_backward_data;
using dnnl::deconvolution_backward_weights;
using dnnl::deconvolution_forward;

constexpr auto kDirect = dnnl::algorithm::deconvolution_direct;

class ConvTranspose2dOp final : public WeightedOp {
 public:
  ConvTranspose2dOp(Lowering& lowering, const nn::Group& group, const nn::ConvTranspose2d& layer)
      : ConvTranspose2dOp(lowering, group, layer,
                          Dims{layer.channels,
                               lowering.graph().node(lowering.node(group.head).inputs[0]).shape[0],
                               layer.kernel.height, layer.kernel.width}) {}

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    lower_weights(lowering, dy_.tensor());
    if (lowering.wants_gradient(node().inputs[0])) lower_data(lowering, dy_.tensor());
  }

 private:
  ConvTranspose2dOp(Lowering& lowering, const nn::Group& group, const nn::ConvTranspose2d& layer,
                    const Dims& weights)
      : WeightedOp(lowering, group, weights, FormatTag::bacd),
        strides_{layer.stride.height, layer.stride.width},
        before_{layer.padding.height, layer.padding.width},
        after_{layer.padding.height - layer.output_padding.height,
               layer.padding.width - layer.output_padding.width},
        weights_dims_(weights),
        bias_(bias_desc(layer.channels)) {
    lower_forward(lowering);
  }

  Desc any_weights(DataType type) const { return {weights_dims_, type, FormatTag::any}; }

  void lower_forward(Lowering& lowering) {
    x_ = lowering.value(node().inputs[0]);
    const Tensor y = lowering.make(lowering.gradient_desc({group().result}));
    const deconvolution_forward::desc desc(dnnl::prop_kind::forward_training, kDirect, x_.desc(),
                                           any_weights(context().type), bias_, y.desc(), strides_,
                                           before_, after_);
    descriptor_ = {desc, weighted_attributes(), context().engine};
    call_forward<deconvolution_forward>(lowering, descriptor_, x_, y, bias_);
    lowering.set_value(group().result, y);
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    const deconvolution_backward_weights::desc desc(kDirect, x_.desc(), any_weights(DataType::f32),
                                                    bias_, dy.desc(), strides_, before_, after_);
    call_back_weights<deconvolution_backward_weights>(
        lowering, {desc, weighted_attributes(), context().engine, descriptor_}, x_, dy, bias_);
  }

  void lower_data(Lowering& lowering, const Tensor& dy) {
    const nn::Value input = node().inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const deconvolution_backward_data::desc desc(kDirect, dx.desc(), any_weights(context().type),
                                                 dy.desc(), strides_, before_, after_);
    call_back_data<deconvolution_backward_data>(
        lowering, {desc, weighted_attributes(), context().engine, descriptor_}, dy, dx);
    lowering.add_gradient(input, dx);
  }

  Dims strides_, before_, after_, weights_dims_;
  Desc bias_;
  deconvolution_forward::primitive_desc descriptor_;
  Tensor x_;
};

}  // namespace

OpPointer make_conv_transpose2d(Lowering& lowering, const nn::Group& group,
                                const nn::ConvTranspose2d& layer) {
  return std::make_unique<ConvTranspose2dOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
