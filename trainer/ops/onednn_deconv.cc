// Transposed convolution: oneDNN's deconvolution, whose weights are PyTorch's with the first two
// axes exchanged.
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weighted_op.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::deconvolution_backward_data;
using dnnl::deconvolution_backward_weights;
using dnnl::deconvolution_forward;

class ConvTranspose2dOp final : public WeightedOp {
 public:
  ConvTranspose2dOp(Lowering& lowering, const nn::Group& group, const nn::ConvTranspose2d& layer)
      : ConvTranspose2dOp(lowering, group, layer,
                          Dims{layer.channels,
                               lowering.graph().node(lowering.node(group.head).inputs[0]).shape[0],
                               layer.kernel.height, layer.kernel.width}) {}

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    sum_gradients(lowering, std::move(parts), {});
    lower_weights(lowering, dy_.tensor());
    lower_data<deconvolution_backward_data>(lowering, [this](const Desc& dx) {
      return deconvolution_data(context(),
                                {dx, any_weights(context().type), bias_, dy_.tensor().desc()},
                                window_, descriptor_);
    });
  }

 private:
  ConvTranspose2dOp(Lowering& lowering, const nn::Group& group, const nn::ConvTranspose2d& layer,
                    const Dims& weights)
      : WeightedOp(lowering, group, "convolution", weights, FormatTag::bacd),
        window_{.strides = {layer.stride.height, layer.stride.width},
                .dilates = {0, 0},
                .before = {layer.padding.height, layer.padding.width},
                .after = {layer.padding.height - layer.output_padding.height,
                          layer.padding.width - layer.output_padding.width}},
        weights_dims_(weights),
        bias_(bias_desc(layer.channels)) {
    lower_forward(lowering);
  }

  Desc any_weights(DataType type) const { return {weights_dims_, type, FormatTag::any}; }

  void lower_forward(Lowering& lowering) {
    x_ = lowering.value(node().inputs[0]);
    const Tensor y = lowering.make(lowering.gradient_desc({group().result}));
    descriptor_ = deconvolution(context(),
                                {x_.desc(), any_weights(context().type), bias_, y.desc()}, window_);
    call_forward<deconvolution_forward>(lowering, descriptor_, x_, y, bias_);
    lowering.set_value(group().result, y);
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    const auto descriptor = deconvolution_weights(
        context(), {x_.desc(), any_weights(DataType::f32), bias_, dy.desc()}, window_, descriptor_);
    call_back_weights<deconvolution_backward_weights>(lowering, descriptor, x_, dy, bias_);
  }

  Window window_;
  Dims weights_dims_;
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
