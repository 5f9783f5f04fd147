// Activations, softmax, upsampling and pooling: primitives with one input, one output and no
// weights.
#include <type_traits>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

// What differs between them: the descriptions of the two primitives, and which value the backward
// pass reads beside the gradient.
struct EltwiseTraits {
  static constexpr const char* kKind = "activation";
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
      case nn::ActivationKind::kSilu:
        return dnnl::algorithm::eltwise_swish;
      case nn::ActivationKind::kLeakyRelu:
      case nn::ActivationKind::kHardSwish:  // not oneDNN's: make_hard_activation()
      case nn::ActivationKind::kHardSigmoid:
        break;
    }
    return dnnl::algorithm::eltwise_relu;
  }
  Forward::primitive_desc forward(const Context& context, const Desc& x, const Desc& y) const {
    return eltwise(context, algorithm(), layer.slope, x, y);
  }
  Backward::primitive_desc backward(const Context& context, const Gradients& gradients,
                                    const Forward::primitive_desc& forward) const {
    return eltwise_back(context, algorithm(), layer.slope, gradients, forward);
  }
};

struct SoftmaxTraits {
  static constexpr const char* kKind = "softmax";
  using Forward = dnnl::softmax_forward;
  using Backward = dnnl::softmax_backward;
  static constexpr int kReads = DNNL_ARG_DST;

  Forward::primitive_desc forward(const Context& context, const Desc& x, const Desc& y) const {
    return softmax(context, x, y);
  }
  Backward::primitive_desc backward(const Context& context, const Gradients& gradients,
                                    const Forward::primitive_desc& forward) const {
    return softmax_back(context, gradients, forward);
  }
};

struct ResamplingTraits {
  static constexpr const char* kKind = "upsampling";
  using Forward = dnnl::resampling_forward;
  using Backward = dnnl::resampling_backward;
  static constexpr int kReads = 0;  // neither value
  nn::Upsample layer;

  dnnl::algorithm algorithm() const {
    return layer.mode == nn::UpsampleMode::kNearest ? dnnl::algorithm::resampling_nearest
                                                    : dnnl::algorithm::resampling_linear;
  }
  Forward::primitive_desc forward(const Context& context, const Desc& x, const Desc& y) const {
    return resampling(context, algorithm(), x, y);
  }
  Backward::primitive_desc backward(const Context& context, const Gradients& gradients,
                                    const Forward::primitive_desc& forward) const {
    return resampling_back(context, algorithm(), gradients, forward);
  }
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
        primitive_desc_(traits.forward(context_, x_.desc(), y_.desc())) {
    const Call run(typename Traits::Forward(primitive_desc_),
                   {{DNNL_ARG_SRC, x_.memory},
                    {DNNL_ARG_DST, y_.memory},
                    {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    forward().push_back(call_work(
        context_, run, {.kind = Traits::kKind, .layout = layout_text(x_.desc(), y_.desc())}));
    lowering.set_value(group.result, y_);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const Tensor read = Traits::kReads == DNNL_ARG_DST ? y_ : x_;
    if (Traits::kReads != 0) lowering.use(read);
    const GradientSum sum(lowering, std::move(parts));
    sum.add_to(backward());
    const Tensor& dy = sum.tensor();
    const Tensor dx = lowering.make(lowering.gradient_desc(input_));
    const auto primitive =
        traits_.backward(context_, {read.desc(), dx.desc(), dy.desc()}, primitive_desc_);
    const Call run(typename Traits::Backward(primitive),
                   {{Traits::kReads, Traits::kReads != 0 ? read.memory : dnnl::memory()},
                    {DNNL_ARG_DIFF_DST, dy.memory},
                    {DNNL_ARG_DIFF_SRC, dx.memory},
                    {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    backward().push_back(call_work(
        context_, run, {.kind = Traits::kKind, .layout = layout_text(dy.desc(), dx.desc())}));
    lowering.add_gradient(input_, dx);
  }

 private:
  const Context& context_;
  nn::Value input_;
  Traits traits_;
  Tensor x_, y_;
  typename Traits::Forward::primitive_desc primitive_desc_;
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

namespace {

using dnnl::pooling_backward;
using dnnl::pooling_forward;

template <typename Layer>
class PoolOp final : public Op {
 public:
  PoolOp(Lowering& lowering, const nn::Group& group, const Layer& layer)
      : context_(lowering.context()),
        input_(lowering.node(group.head).inputs[0]),
        kernel_(pair(layer.kernel)),
        window_{pair(layer.stride), {0, 0}, pair(layer.padding), pair(layer.padding)} {
    const Tensor x = lowering.value(input_);
    Tensor y = lowering.make(lowering.gradient_desc({group.result}));
    y.rounded = kIsMax;  // as the values that it chooses from
    const Tensor whole_x = in_whole_blocks(lowering, x);
    const Tensor whole_y = in_whole_blocks(lowering, y);
    primitive_desc_ =
        pooling(context_, kAlgorithm, whole_x.desc(), whole_y.desc(), kernel_, window_);
    // Which value of each window was the largest.
    if (kIsMax) workspace_ = lowering.make(primitive_desc_.workspace_desc());
    const Call pool(
        pooling_forward(primitive_desc_),
        {{DNNL_ARG_SRC, whole_x.memory},
         {DNNL_ARG_DST, whole_y.memory},
         {DNNL_ARG_WORKSPACE, workspace_.memory},
         {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    forward().push_back(call_work(
        context_, pool, {.kind = kKind, .layout = layout_text(whole_x.desc(), whole_y.desc())}));
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(workspace_);
    const GradientSum sum(lowering, std::move(parts));
    sum.add_to(backward());
    const Tensor dx = lowering.make(lowering.gradient_desc(input_));
    const Tensor whole_dx = in_whole_blocks(lowering, dx);
    const Tensor whole_dy = in_whole_blocks(lowering, sum.tensor());
    const auto primitive =
        pooling_back(context_, kAlgorithm, {{}, whole_dx.desc(), whole_dy.desc()}, kernel_, window_,
                     primitive_desc_);
    const Call back(pooling_backward(primitive),
                    {{DNNL_ARG_DIFF_DST, whole_dy.memory},
                     {DNNL_ARG_DIFF_SRC, whole_dx.memory},
                     {DNNL_ARG_WORKSPACE, workspace_.memory},
                     {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    backward().push_back(call_work(
        context_, back, {.kind = kKind, .layout = layout_text(whole_dy.desc(), whole_dx.desc())}));
    lowering.add_gradient(input_, dx);
  }

 private:
  static constexpr const char* kKind = "pooling";
  static constexpr bool kIsMax = std::is_same_v<Layer, nn::MaxPool2d>;
  static constexpr auto kAlgorithm =
      kIsMax ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding;
  static Dims pair(nn::Extent2d extent) { return {extent.height, extent.width}; }

  // With the last block's padding as channels, whose zeros stay zero: oneDNN handles a partial
  // block by code of a third of the speed.
  Tensor in_whole_blocks(Lowering& lowering, const Tensor& tensor) const {
    const Dims dims = dims_of(tensor.desc());
    const std::int64_t whole = context_.layout.padded(dims[1]);
    if (dims[1] == whole) return tensor;
    return lowering.view(tensor, context_.image({whole, dims[2], dims[3]}, type_of(tensor.desc())));
  }

  const Context& context_;
  nn::Value input_;
  Dims kernel_;
  Window window_;
  pooling_forward::primitive_desc primitive_desc_;
  Tensor workspace_;
};

}  // namespace

OpPointer make_max_pool(Lowering& lowering, const nn::Group& group, const nn::MaxPool2d& layer) {
  return std::make_unique<PoolOp<nn::MaxPool2d>>(lowering, group, layer);
}

OpPointer make_avg_pool(Lowering& lowering, const nn::Group& group, const nn::AvgPool2d& layer) {
  return std::make_unique<PoolOp<nn::AvgPool2d>>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
