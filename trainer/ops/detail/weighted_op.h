// WeightedOp: the common part of convolution, its transpose and the linear layer: weights and bias
// in the layouts of their primitives, and the work of the three passes in order.
//
// A layer derives from it, makes its primitives' descriptors, and passes them with the tensors:
//
//   call_forward<convolution_forward>(lowering, descriptor, x, y);
#pragma once

#include <string_view>
#include <vector>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/op.h"
#include "trainer/ops/detail/primitives.h"
#include "trainer/ops/detail/weights.h"

namespace millrace::trainer::ops {

class WeightedOp : public Op {
 public:
  void parameters_changed() final;

 protected:
  /// `kind` is what a plan calls it; `weights` and `tag`: the layer's weights in the flat
  /// parameters.
  WeightedOp(Lowering& lowering, const nn::Group& group, std::string_view kind, const Dims& weights,
             FormatTag tag);

  const Context& context() const { return context_; }
  const nn::Group& group() const { return group_; }
  const nn::Node& node() const { return node_; }
  bool has_bias() const { return node_.bias != nn::kNoParameter; }
  /// `features` float32 values; empty for a layer without bias.
  Desc bias_desc(std::int64_t features) const;

  /// `tensor`, or a copy of it in the layout `wanted`, which `works` make.
  static Tensor in_layout(Lowering& lowering, const Tensor& tensor, const Desc& wanted,
                          Works& works);
  /// The gradient of the result.
  void sum_gradients(Lowering& lowering, std::vector<Gradient> parts, const Tensor& relu_output);

  template <typename Primitive>
  void call_forward(Lowering& lowering, const typename Primitive::primitive_desc& descriptor,
                    const Tensor& x, const Tensor& y, const Desc& bias);
  template <typename Primitive>
  void call_back_weights(Lowering& lowering, const typename Primitive::primitive_desc& descriptor,
                         const Tensor& x, const Tensor& dy, const Desc& bias);
  template <typename Primitive>
  void call_back_data(Lowering& lowering, const typename Primitive::primitive_desc& descriptor,
                      const Tensor& dy, const Tensor& dx);
  /// The gradient of the input, if anything before it has parameters, in its own layout:
  /// `describe(dx)` is the primitive's descriptor.
  template <typename Primitive, typename Describe>
  void lower_data(Lowering& lowering, const Describe& describe);

  GradientSum dy_;

 private:
  dnnl::memory master(Lowering& lowering) const;
  void prepare(Lowering& lowering, const Desc& weights, const Desc& bias);
  void prepare_gradients(Lowering& lowering, const Desc& weights, const Desc& bias);
  Work product(Call call, std::string_view part, const Desc& from, const Desc& to) const;

  const Context& context_;
  std::string_view kind_;
  double flops_;
  nn::Group group_;
  const nn::Node& node_;
  FlatView weight_view_, bias_view_;
  PreparedWeights weights_, bias_, weights_back_;
  WeightGradient weight_gradient_, bias_gradient_;
};

template <typename Primitive>
void WeightedOp::call_forward(Lowering& lowering,
                              const typename Primitive::primitive_desc& descriptor, const Tensor& x,
                              const Tensor& y, const Desc& bias) {
  prepare(lowering, descriptor.weights_desc(), bias);
  forward().push_back(
      product(Call(Primitive(descriptor),
                   {{DNNL_ARG_SRC, x.memory},
                    {DNNL_ARG_WEIGHTS, weights_.memory()},
                    {DNNL_ARG_BIAS, bias_.memory()},
                    {DNNL_ARG_DST, y.memory},
                    {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(descriptor.scratchpad_desc())}}),
              "", x.desc(), y.desc()));
}

template <typename Primitive>
void WeightedOp::call_back_weights(Lowering& lowering,
                                   const typename Primitive::primitive_desc& descriptor,
                                   const Tensor& x, const Tensor& dy, const Desc& bias) {
  prepare_gradients(lowering, descriptor.diff_weights_desc(), bias);
  backward().push_back(
      product(Call(Primitive(descriptor),
                   {{DNNL_ARG_SRC, x.memory},
                    {DNNL_ARG_DIFF_DST, dy.memory},
                    {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                    {DNNL_ARG_DIFF_BIAS, bias_gradient_.memory()},
                    {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(descriptor.scratchpad_desc())}}),
              "dW", x.desc(), dy.desc()));
  weight_gradient_.add_to(backward(), context_, "dW");
  bias_gradient_.add_to(backward(), context_, "db");
}

template <typename Primitive>
void WeightedOp::call_back_data(Lowering& lowering,
                                const typename Primitive::primitive_desc& descriptor,
                                const Tensor& dy, const Tensor& dx) {
  const bool shared = weights_.memory().get_desc() == descriptor.weights_desc();
  if (!shared) {
    weights_back_ = PreparedWeights(lowering, master(lowering), descriptor.weights_desc());
    weights_back_.add_to(backward(), context_, "W");
  }
  backward().push_back(
      product(Call(Primitive(descriptor),
                   {{DNNL_ARG_DIFF_DST, dy.memory},
                    {DNNL_ARG_WEIGHTS, (shared ? weights_ : weights_back_).memory()},
                    {DNNL_ARG_DIFF_SRC, dx.memory},
                    {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(descriptor.scratchpad_desc())}}),
              "dx", dy.desc(), dx.desc()));
}

template <typename Primitive, typename Describe>
void WeightedOp::lower_data(Lowering& lowering, const Describe& describe) {
  const nn::Value input = node_.inputs[0];
  if (!lowering.wants_gradient(input)) return;
  const Tensor dx = lowering.make(lowering.gradient_desc(input));
  call_back_data<Primitive>(lowering, describe(dx.desc()), dy_.tensor(), dx);
  lowering.add_gradient(input, dx);
}

}  // namespace millrace::trainer::ops
