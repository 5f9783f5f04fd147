#include "trainer/ops/detail/weighted_op.h"

namespace millrace::trainer::ops {

WeightedOp::WeightedOp(Lowering& lowering, const nn::Group& group, const Dims& weights,
                       FormatTag tag)
    : context_(lowering.context()),
      group_(group),
      node_(lowering.node(group.head)),
      weight_view_{node_.weight, weights, tag} {
  if (!has_bias()) return;
  const std::size_t size = lowering.graph().parameters().entries()[node_.bias].size;
  bias_view_ = {node_.bias, {static_cast<std::int64_t>(size)}, FormatTag::a};
}

Desc WeightedOp::bias_desc(std::int64_t features) const {
  if (!has_bias()) return {};
  return {{features}, DataType::f32, FormatTag::a};
}

Tensor WeightedOp::in_layout(Lowering& lowering, const Tensor& tensor, const Desc& wanted,
                             Calls& calls) {
  if (tensor.desc() == wanted) return tensor;
  Tensor other = lowering.make(wanted);
  calls.push_back(reorder_call(tensor.memory, other.memory));
  return other;
}

dnnl::memory WeightedOp::master(Lowering& lowering) const {
  return lowering.parameter(weight_view_.parameter, weight_view_.dims, weight_view_.tag);
}

void WeightedOp::prepare(Lowering& lowering, const Desc& weights, const Desc& bias) {
  weights_ = PreparedWeights(lowering, master(lowering), weights);
  if (!has_bias()) return;
  bias_ = PreparedWeights(
      lowering, lowering.parameter(bias_view_.parameter, bias_view_.dims, bias_view_.tag), bias);
}

void WeightedOp::prepare_gradients(Lowering& lowering, const Desc& weights, const Desc& bias) {
  weight_gradient_ = WeightGradient(lowering, weight_view_, weights);
  if (has_bias()) bias_gradient_ = WeightGradient(lowering, bias_view_, bias);
}

void WeightedOp::parameters_changed() {
  for (PreparedWeights* weights : {&weights_, &bias_, &weights_back_}) {
    weights->parameters_changed();
  }
}

void WeightedOp::run(const Calls& calls) const {
  for (const Call& call : calls) call.run(context_);
}

void WeightedOp::forward(const Pass&) {
  weights_.refresh(context_);
  bias_.refresh(context_);
  run(forward_);
}

void WeightedOp::backward() {
  dy_.run();
  run(back_weights_);
  weight_gradient_.finish(context_);
  bias_gradient_.finish(context_);
  if (back_data_.empty()) return;
  weights_back_.refresh(context_);
  run(back_data_);
}

}  // namespace millrace::trainer::ops
