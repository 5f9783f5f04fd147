// Layer norm, and channels times weights, by millrace's own loops over a pixel's channels.
#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/detail/flat_math.h"
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

/// What both have: one input, a result of its shape, a gradient that may take its place.
class RowOp : public Op {
 public:
  RowOp(Lowering& lowering, const nn::Group& group)
      : node_(lowering.node(group.head)),
        storage_(storage_of(lowering.context())),
        shape_(image_shape(lowering.context(), node_.shape)),
        x_(lowering.unrounded_value(node_.inputs[0])),
        y_(lowering.rounded_result(group.result)) {}

 protected:
  void place_gradients(Lowering& lowering, std::vector<Gradient> parts) {
    lowering.use(x_);
    dy_ = GradientSum(lowering, std::move(parts));
    dx_ = dy_.in_place(lowering, node_.inputs[0]);
    dy_.add_to(backward());
  }
  static Tensor floats(Lowering& lowering, std::size_t count) {
    return lowering.make({{static_cast<std::int64_t>(count)}, DataType::f32, FormatTag::a});
  }
  static std::span<float> span_of(const Tensor& tensor) {
    return {static_cast<float*>(tensor.data()), tensor.desc().get_size() / sizeof(float)};
  }
  void clear(const Tensor& tensor) const {
    clear_padding(shape_, value_bytes(storage_), tensor.data());
  }

  const nn::Node& node_;
  Storage storage_;
  ImageShape shape_;
  Tensor x_, y_, dx_;
  GradientSum dy_;
};

class LayerNormOp final : public RowOp {
 public:
  LayerNormOp(Lowering& lowering, const nn::Group& group, const nn::LayerNorm& layer)
      : RowOp(lowering, group),
        epsilon_(layer.epsilon),
        gamma_(lowering.parameter_values(node_.weight)),
        beta_(lowering.parameter_values(node_.bias)),
        statistics_(floats(lowering, 2 * static_cast<std::size_t>(shape_.rows()))) {
    forward().push_back(
        loop_work("layer norm", {x_.memory, y_.memory}, [this](const Pass&) { compute(); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(statistics_);
    place_gradients(lowering, std::move(parts));
    scratch_ = floats(lowering, row_scratch(shape_, 2));
    dgamma_ = lowering.gradient_values(node_.weight);
    dbeta_ = lowering.gradient_values(node_.bias);
    backward().push_back(loop_work("layer norm", {x_.memory, dy_.tensor().memory, dx_.memory},
                                   [this](const Pass&) { compute_back(); }));
  }

 private:
  void compute() const {
    layer_norm(storage_, shape_,
               {.x = x_.data(),
                .y = y_.data(),
                .gamma = gamma_,
                .beta = beta_,
                .epsilon = epsilon_,
                .statistics = span_of(statistics_)});
    clear(y_);
  }
  void compute_back() const {
    layer_norm_backward(storage_, shape_,
                        {.x = x_.data(),
                         .dy = dy_.tensor().data(),
                         .dx = dx_.data(),
                         .gamma = gamma_,
                         .statistics = span_of(statistics_),
                         .dgamma = dgamma_,
                         .dbeta = dbeta_,
                         .scratch = span_of(scratch_)});
    clear(dx_);
  }

  float epsilon_;
  std::span<const float> gamma_, beta_;
  std::span<float> dgamma_, dbeta_;
  Tensor statistics_, scratch_;
};

class ChannelScaleOp final : public RowOp {
 public:
  ChannelScaleOp(Lowering& lowering, const nn::Group& group)
      : RowOp(lowering, group),
        master_(lowering.parameter_values(node_.weight)),
        weights_(master_.begin(), master_.end()),
        rounds_(storage_ != Storage::kFloat32) {
    forward().push_back(
        loop_work("channel scale", {x_.memory, y_.memory}, [this](const Pass&) { compute(); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    place_gradients(lowering, std::move(parts));
    scratch_ = floats(lowering, row_scratch(shape_, 1));
    dweights_ = lowering.gradient_values(node_.weight);
    backward().push_back(loop_work("channel scale", {x_.memory, dy_.tensor().memory, dx_.memory},
                                   [this](const Pass&) { compute_back(); }));
  }

 private:
  // Few enough to be read anew in every pass; a bf16 plan rounds them, as all weights of more than
  // one dimension.
  void compute() {
    std::ranges::copy(master_, weights_.begin());
    if (rounds_) flat::round_to_bf16(weights_);
    weigh_channels(storage_, shape_, {.x = x_.data(), .y = y_.data(), .weights = weights_});
    clear(y_);
  }
  void compute_back() const {
    weigh_channels_backward(storage_, shape_,
                            {.x = x_.data(),
                             .dy = dy_.tensor().data(),
                             .dx = dx_.data(),
                             .weights = weights_,
                             .dweights = dweights_,
                             .scratch = span_of(scratch_)});
    clear(dx_);
  }

  std::span<const float> master_;
  std::vector<float> weights_;
  bool rounds_;
  std::span<float> dweights_;
  Tensor scratch_;
};

}  // namespace

OpPointer make_layer_norm(Lowering& lowering, const nn::Group& group, const nn::LayerNorm& layer) {
  return std::make_unique<LayerNormOp>(lowering, group, layer);
}

OpPointer make_channel_scale(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ChannelScaleOp>(lowering, group);
}

}  // namespace millrace::trainer::ops
