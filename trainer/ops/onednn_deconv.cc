// Transposed convolution: oneDNN's deconvolution, whose weights are PyTorch's with the first two
// axes exchanged.
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/weights.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::deconvolution_backward_data;
using dnnl::deconvolution_backward_weights;
using dnnl::deconvolution_forward;
using Dims = dnnl::memory::dims;

constexpr auto kDirect = dnnl::algorithm::deconvolution_direct;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

class ConvTranspose2dOp final : public Op {
 public:
  ConvTranspose2dOp(Lowering& lowering, const nn::Group& group, const nn::ConvTranspose2d& layer)
      : backend_(lowering.backend()),
        node_(lowering.node(group.head)),
        strides_{layer.stride.height, layer.stride.width},
        before_{layer.padding.height, layer.padding.width},
        after_{layer.padding.height - layer.output_padding.height,
               layer.padding.width - layer.output_padding.width},
        weights_dims_{layer.channels, lowering.graph().node(node_.inputs[0]).shape[0],
                      layer.kernel.height, layer.kernel.width} {
    lower_forward(lowering, group);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    lower_weights(lowering);
    if (lowering.wants_gradient(node_.inputs[0])) lower_data(lowering);
  }

  void parameters_changed() override {
    weights_.parameters_changed();
    weights_back_.parameters_changed();
  }

  void forward(const Pass&) override {
    weights_.refresh(backend_);
    convolve_.run(backend_);
  }

  void backward() override {
    dy_.run();
    back_weights_.run(backend_);
    weight_gradient_.finish(backend_);
    bias_gradient_.finish(backend_);
    if (!back_data_) return;
    weights_back_.refresh(backend_);
    back_data_.run(backend_);
  }

 private:
  Desc any_weights(DataType type) const { return {weights_dims_, type, FormatTag::any}; }
  Dims bias_dims() const { return {weights_dims_[0]}; }
  Desc bias_desc() const {
    if (node_.bias == nn::kNoParameter) return {};
    return {bias_dims(), DataType::f32, FormatTag::a};
  }
  dnnl::memory master(Lowering& lowering) const {
    return lowering.parameter(node_.weight, weights_dims_, FormatTag::bacd);
  }

  void lower_forward(Lowering& lowering, const nn::Group& group) {
    x_ = lowering.value(node_.inputs[0]);
    y_ = lowering.make(lowering.gradient_desc({group.result}));
    const deconvolution_forward::desc desc(dnnl::prop_kind::forward_training, kDirect, x_.desc(),
                                           any_weights(backend_.type), bias_desc(), y_.desc(),
                                           strides_, before_, after_);
    primitive_desc_ = {desc, user_scratchpad(), backend_.engine};
    weights_ = PreparedWeights(lowering, master(lowering), primitive_desc_.weights_desc());
    dnnl::memory bias;
    if (node_.bias != nn::kNoParameter) {
      bias = lowering.parameter(node_.bias, bias_dims(), FormatTag::a);
    }
    convolve_ =
        Call(deconvolution_forward(primitive_desc_),
             {{DNNL_ARG_SRC, x_.memory},
              {DNNL_ARG_WEIGHTS, weights_.memory()},
              {DNNL_ARG_BIAS, bias},
              {DNNL_ARG_DST, y_.memory},
              {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive_desc_.scratchpad_desc())}});
    lowering.set_value(group.result, y_);
  }

  void lower_weights(Lowering& lowering) {
    lowering.use(x_);
    const deconvolution_backward_weights::desc desc(kDirect, x_.desc(), any_weights(DataType::f32),
                                                    bias_desc(), dy_.tensor().desc(), strides_,
                                                    before_, after_);
    const deconvolution_backward_weights::primitive_desc primitive(
        desc, user_scratchpad(), backend_.engine, primitive_desc_);
    weight_gradient_ = WeightGradient(lowering, {node_.weight, weights_dims_, FormatTag::bacd},
                                      primitive.diff_weights_desc());
    if (node_.bias != nn::kNoParameter) {
      bias_gradient_ =
          WeightGradient(lowering, {node_.bias, bias_dims(), FormatTag::a}, bias_desc());
    }
    back_weights_ = Call(deconvolution_backward_weights(primitive),
                         {{DNNL_ARG_SRC, x_.memory},
                          {DNNL_ARG_DIFF_DST, dy_.tensor().memory},
                          {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                          {DNNL_ARG_DIFF_BIAS, bias_gradient_.memory()},
                          {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
  }

  void lower_data(Lowering& lowering) {
    const nn::Value input = node_.inputs[0];
    const Tensor dx = lowering.make(lowering.gradient_desc(input));
    const deconvolution_backward_data::desc desc(kDirect, dx.desc(), any_weights(backend_.type),
                                                 dy_.tensor().desc(), strides_, before_, after_);
    const deconvolution_backward_data::primitive_desc primitive(desc, user_scratchpad(),
                                                                backend_.engine, primitive_desc_);
    weights_back_ = PreparedWeights(lowering, master(lowering), primitive.weights_desc());
    back_data_ = Call(deconvolution_backward_data(primitive),
                      {{DNNL_ARG_DIFF_DST, dy_.tensor().memory},
                       {DNNL_ARG_WEIGHTS, weights_back_.memory()},
                       {DNNL_ARG_DIFF_SRC, dx.memory},
                       {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(primitive.scratchpad_desc())}});
    lowering.add_gradient(input, dx);
  }

  const Backend& backend_;
  const nn::Node& node_;
  Dims strides_, before_, after_, weights_dims_;
  deconvolution_forward::primitive_desc primitive_desc_;

  Tensor x_, y_;
  PreparedWeights weights_;
  Call convolve_;

  GradientSum dy_;
  WeightGradient weight_gradient_, bias_gradient_;
  PreparedWeights weights_back_;
  Call back_weights_, back_data_;
};

}  // namespace

OpPointer make_conv_transpose2d(Lowering& lowering, const nn::Group& group,
                                const nn::ConvTranspose2d& layer) {
  return std::make_unique<ConvTranspose2dOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
