#include <type_traits>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::pooling_backward;
using dnnl::pooling_forward;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <typename Layer>
class PoolOp final : public Op {
 public:
  PoolOp(Lowering& lowering, const nn::Group& group, const Layer& layer)
      : context_(lowering.context()), input_(lowering.node(group.head).inputs[0]), layer_(layer) {
    const Tensor x = lowering.value(input_);
    const Tensor y = lowering.make(lowering.gradient_desc({group.result}));
    const pooling_forward::desc desc(dnnl::prop_kind::forward_training, kAlgorithm, x.desc(),
                                     y.desc(), pair(layer.stride), pair(layer.kernel),
                                     pair(layer.padding), pair(layer.padding));
    primitive_desc_ = {desc, user_scratchpad(), context_.engine};
    // Which value of each window was the largest.
    if (kIsMax) workspace_ = lowering.make(primitive_desc_.workspace_desc());
    pool_ = Call(pooling_forward(primitive_desc_),
                 {{DNNL_ARG_SRC, x.memory},
                  {DNNL_ARG_DST, y.memory},
                  {DNNL_ARG_WORKSPACE, workspace_.memory},
                  {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(workspace_);
    dy_ = GradientSum(lowering, std::move(parts));
    const Tensor dx = lowering.make(lowering.gradient_desc(input_));
    const pooling_backward::desc desc(kAlgorithm, dx.desc(), dy_.tensor().desc(),
                                      pair(layer_.stride), pair(layer_.kernel),
                                      pair(layer_.padding), pair(layer_.padding));
    const pooling_backward::primitive_desc primitive(desc, user_scratchpad(), context_.engine,
                                                     primitive_desc_);
    back_ = Call(pooling_backward(primitive),
                 {{DNNL_ARG_DIFF_DST, dy_.tensor().memory},
                  {DNNL_ARG_DIFF_SRC, dx.memory},
                  {DNNL_ARG_WORKSPACE, workspace_.memory},
                  {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    lowering.add_gradient(input_, dx);
  }

  void forward(const Pass&) override { pool_.run(context_); }
  void backward() override {
    dy_.run();
    back_.run(context_);
  }

 private:
  static constexpr bool kIsMax = std::is_same_v<Layer, nn::MaxPool2d>;
  static constexpr auto kAlgorithm =
      kIsMax ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding;
  static dnnl::memory::dims pair(nn::Extent2d extent) { return {extent.height, extent.width}; }

  const Context& context_;
  nn::Value input_;
  Layer layer_;
  pooling_forward::primitive_desc primitive_desc_;
  Tensor workspace_;
  Call pool_;
  GradientSum dy_;
  Call back_;
};

}  // namespace

OpPointer make_max_pool(Lowering& lowering, const nn::Group& group, const nn::MaxPool2d& layer) {
  return std::make_unique<PoolOp<nn::MaxPool2d>>(lowering, group, layer);
}

OpPointer make_avg_pool(Lowering& lowering, const nn::Group& group, const nn::AvgPool2d& layer) {
  return std::make_unique<PoolOp<nn::AvgPool2d>>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
