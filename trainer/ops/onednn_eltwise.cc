// Activations, softmax and upsampling: primitives with one input, one output and no weights.
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// What differs between them: the descriptions of the two primitives, and which value the backward
// pass reads beside the gradient.
struct EltwiseTraits {
  using Forward = dnnl::eltwise_forward;
  using Backward = dnnl::eltwise_backward;
  static constexpr int kReads = DNNL_ARG_SRC;
  nn::Activation layer;

  dnnl::algorithm algorithm() const {
    switch (layer.kind) {
      case nn::ActivationKind::kSigmoid:
        return dnnl::algorithm::eltwise_logistic;
      case nn::ActivationKind::kGelu:
        return dnnl::algorithm::eltwise_gelu_erf;
      case nn::ActivationKind::kLeakyRelu:
        break;
    }
    return dnnl::algorithm::eltwise_relu;
  }
  Forward::desc forward(const Desc& x, const Desc&) const {
    return {dnnl::prop_kind::forward_training, algorithm(), x, layer.slope, 0.0F};
  }
  Backward::desc backward(const Desc& x, const Desc& dy) const {
    return {algorithm(), dy, x, layer.slope, 0.0F};
  }
};

struct SoftmaxTraits {
  using Forward = dnnl::softmax_forward;
  using Backward = dnnl::softmax_backward;
  static constexpr int kReads = DNNL_ARG_DST;

  Forward::desc forward(const Desc& x, const Desc&) const {
    return {dnnl::prop_kind::forward_training, x, 1};
  }
  Backward::desc backward(const Desc& y, const Desc& dy) const { return {dy, y, 1}; }
};

struct ResamplingTraits {
  using Forward = dnnl::resampling_forward;
  using Backward = dnnl::resampling_backward;
  static constexpr int kReads = 0;  // neither value
  nn::Upsample layer;

  dnnl::algorithm algorithm() const {
    return layer.mode == nn::UpsampleMode::kNearest ? dnnl::algorithm::resampling_nearest
                                                    : dnnl::algorithm::resampling_linear;
  }
  Forward::desc forward(const Desc& x, const Desc& y) const {
    return {dnnl::prop_kind::forward_training, algorithm(), x, y};
  }
  Backward::desc backward(const Desc& x, const Desc& dy) const { return {algorithm(), x, dy}; }
};

template <typename Traits>
class UnaryOp final : public Op {
 public:
  UnaryOp(Lowering& lowering, const nn::Group& group, const Traits& traits)
      : context_(lowering.context()),
        input_(lowering.node(group.head).inputs[0]),
        traits_(traits),
        x_(lowering.value(input_)),
        y_(lowering.make(lowering.gradient_desc({group.result}))),
        primitive_desc_(traits.forward(x_.desc(), y_.desc()), user_scratchpad(), context_.engine) {
    run_ = Call(typename Traits::Forward(primitive_desc_),
                {{DNNL_ARG_SRC, x_.memory},
                 {DNNL_ARG_DST, y_.memory},
                 {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group.result, y_);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const Tensor read = Traits::kReads == DNNL_ARG_DST ? y_ : x_;
    if (Traits::kReads != 0) lowering.use(read);
    dy_ = GradientSum(lowering, std::move(parts));
    const Tensor dx = lowering.make(lowering.gradient_desc(input_));
    const typename Traits::Backward::primitive_desc primitive(
        traits_.backward(read.desc(), dy_.tensor().desc()), user_scratchpad(), context_.engine,
        primitive_desc_);
    run_back_ = Call(typename Traits::Backward(primitive),
                     {{Traits::kReads, Traits::kReads != 0 ? read.memory : dnnl::memory()},
                      {DNNL_ARG_DIFF_DST, dy_.tensor().memory},
                      {DNNL_ARG_DIFF_SRC, dx.memory},
                      {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    lowering.add_gradient(input_, dx);
  }

  void forward(const Pass&) override { run_.run(context_); }
  void backward() override {
    dy_.run();
    run_back_.run(context_);
  }

 private:
  const Context& context_;
  nn::Value input_;
  Traits traits_;
  Tensor x_, y_;
  typename Traits::Forward::primitive_desc primitive_desc_;
  Call run_;
  GradientSum dy_;
  Call run_back_;
};

}  // namespace

OpPointer make_activation(Lowering& lowering, const nn::Group& group, const nn::Activation& layer) {
  return std::make_unique<UnaryOp<EltwiseTraits>>(lowering, group, EltwiseTraits{layer});
}

OpPointer make_softmax(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<UnaryOp<SoftmaxTraits>>(lowering, group, SoftmaxTraits{});
}

OpPointer make_upsample(Lowering& lowering, const nn::Group& group, const nn::Upsample& layer) {
  return std::make_unique<UnaryOp<ResamplingTraits>>(lowering, group, ResamplingTraits{layer});
}

}  // namespace millrace::trainer::ops
