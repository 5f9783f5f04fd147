#include "trainer/ops/detail/weighted_op.h"

#include <string>
#include <utility>

#include "trainer/nn/summary.h"

namespace millrace::trainer::ops {

WeightedOp::WeightedOp(Lowering& lowering, const nn::Group& group, std::string_view kind,
                       const Dims& weights, FormatTag tag)
    : context_(lowering.context()),
      kind_(kind),
      flops_(2.0 * static_cast<double>(context_.batch_size) *
             static_cast<double>(nn::multiply_adds(lowering.graph(), lowering.node(group.head)))),
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
                             Works& works) {
  if (tensor.desc() == wanted) return tensor;
  Tensor other = lowering.make(wanted);
  works.push_back(reorder_work(lowering.context(), tensor.memory, other.memory));
  return other;
}

void WeightedOp::sum_gradients(Lowering& lowering, std::vector<Gradient> parts,
                               const Tensor& relu_output) {
  dy_ = GradientSum(lowering, std::move(parts), relu_output);
  dy_.add_to(backward());
}

Work WeightedOp::product(Call call, std::string_view part, const Desc& from, const Desc& to) const {
  return call_work(context_, std::move(call),
                   {.kind = std::string(kind_),
                    .part = std::string(part),
                    .layout = layout_text(from, to),
                    .flops = flops_});
}

dnnl::memory WeightedOp::master(Lowering& lowering) const {
  return lowering.parameter(weight_view_.parameter, weight_view_.dims, weight_view_.tag);
}

void WeightedOp::prepare(Lowering& lowering, const Desc& weights, const Desc& bias) {
  weights_ = PreparedWeights(lowering, master(lowering), weights);
  weights_.add_to(forward(), context_, "W");
  if (!has_bias()) return;
  bias_ = PreparedWeights(
      lowering, lowering.parameter(bias_view_.parameter, bias_view_.dims, bias_view_.tag), bias);
  bias_.add_to(forward(), context_, "b");
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

}  // namespace millrace::trainer::ops
