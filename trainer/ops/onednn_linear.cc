#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weighted_op.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;

class LinearOp final : public WeightedOp {
 public:
  LinearOp(Lowering& lowering, const nn::Group& group, const nn::Linear& layer)
      : LinearOp(lowering, group,
                 Dims{layer.features,
                      lowering.graph().node(lowering.node(group.head).inputs[0]).shape[0]}) {}

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    sum_gradients(lowering, std::move(parts), group().relu ? y_ : Tensor{});
    lower_weights(lowering, dy_.tensor());
    lower_data<inner_product_backward_data>(lowering, [this](const Desc& dx) {
      return inner_product_data(
          context(), {dx, plain_weights(context().type), bias_, dy_.tensor().desc()}, descriptor_);
    });
  }

 private:
  LinearOp(Lowering& lowering, const nn::Group& group, const Dims& weights)
      : WeightedOp(lowering, group, "product", weights, FormatTag::ab),
        weights_dims_(weights),
        bias_(bias_desc(weights[0])) {
    lower_forward(lowering);
  }

  // The layout of the parameters and their gradients: oneDNN's blocked layouts save less time in
  // the products than converting the weights and gradients of every step costs.
  Desc plain_weights(DataType type) const { return {weights_dims_, type, FormatTag::ab}; }

  void lower_forward(Lowering& lowering) {
    x_ = lowering.value(node().inputs[0]);
    y_ = lowering.make(
        {{context().batch_size, weights_dims_[0]}, result_type(lowering, group()), FormatTag::ab});
    descriptor_ = inner_product(
        context(), {x_.desc(), plain_weights(context().type), bias_, y_.desc()}, group().relu);
    call_forward<inner_product_forward>(lowering, descriptor_, x_, y_, bias_);
    lowering.set_value(group().result, y_);
  }

  void lower_weights(Lowering& lowering, const Tensor& dy) {
    lowering.use(x_);
    const auto descriptor = inner_product_weights(
        context(), {x_.desc(), plain_weights(DataType::f32), bias_, dy.desc()}, descriptor_);
    call_back_weights<inner_product_backward_weights>(lowering, descriptor, x_, dy, bias_);
  }

  Dims weights_dims_;
  Desc bias_;
  inner_product_forward::primitive_desc descriptor_;
  Tensor x_, y_;
};

}  // namespace

OpPointer make_linear(Lowering& lowering, const nn::Group& group, const nn::Linear& layer) {
  return std::make_unique<LinearOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
