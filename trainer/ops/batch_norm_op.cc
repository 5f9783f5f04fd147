#include <algorithm>
#include <utility>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

class BatchNormOp final : public Op {
 public:
  BatchNormOp(Lowering& lowering, const nn::Group& group, const nn::BatchNorm& layer)
      : group_(group), node_(lowering.node(group.head)), storage_(storage_of(lowering.context())) {
    x_ = lowering.unrounded_value(node_.inputs[0]);
    if (group.residual) residual_ = lowering.unrounded_value(*group.residual);
    y_ = lowering.rounded_result(group.result);
    describe(lowering, layer);
    scratch_ = make_scratch(lowering);
    forward().push_back(loop_work("batch norm", {x_.memory, residual_.memory, y_.memory},
                                  [this](const Pass& pass) { normalise(pass); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(x_);
    place_gradients(lowering, std::move(parts));
    back_scratch_ = make_scratch(lowering);
    back_.dgamma = lowering.gradient_values(node_.weight);
    back_.dbeta = lowering.gradient_values(node_.bias);
    backward().push_back(
        loop_work("batch norm",
                  {x_.memory, dy_.memory, dy2_.memory, masked_by().memory, g_.memory, dx_.memory},
                  [this](const Pass&) { normalise_back(); }));
  }

 private:
  /// The output, if the ReLU's mask does not follow from x alone.
  Tensor masked_by() const { return group_.relu && group_.residual ? y_ : Tensor{}; }

  void normalise(const Pass& pass) {
    forward_.x = x_.data();
    forward_.y = y_.data();
    forward_.residual = residual_ ? residual_.data() : nullptr;
    forward_.scratch = floats_of(scratch_);
    if (pass.mode == nn::Mode::kEvaluate) return batch_norm_evaluate(storage_, shape_, forward_);
    batch_norm_train(storage_, shape_, forward_);
    batches_tracked_[0] += 1.0F;
  }

  void normalise_back() {
    back_.x = x_.data();
    back_.dy = dy_.data();
    back_.dy2 = dy2_ ? dy2_.data() : nullptr;
    back_.y = masked_by() ? y_.data() : nullptr;
    back_.g = g_ ? g_.data() : nullptr;
    back_.dx = dx_ ? dx_.data() : nullptr;
    back_.scratch = floats_of(back_scratch_);
    batch_norm_backward(storage_, shape_, back_);
  }

  void describe(Lowering& lowering, const nn::BatchNorm& layer) {
    const Context& context = lowering.context();
    const std::int64_t channels = node_.shape[0];
    shape_ = {.images = context.batch_size,
              .blocks = context.layout.blocks_of(channels),
              .pixels = node_.shape[1] * node_.shape[2],
              .block = context.layout.block_of(channels),
              .channels = channels,
              .channels_last = context.layout.channels_last()};
    const auto padded = static_cast<std::size_t>(context.layout.padded(channels));
    mean_.assign(padded, 0.0F);
    inverse_deviation_.assign(padded, 0.0F);
    batches_tracked_ = lowering.buffer_values(node_.buffers + 2);
    forward_ = {.relu = group_.relu,
                .gamma = lowering.parameter_values(node_.weight),
                .beta = lowering.parameter_values(node_.bias),
                .running_mean = lowering.buffer_values(node_.buffers),
                .running_variance = lowering.buffer_values(node_.buffers + 1),
                .mean = mean_,
                .inverse_deviation = inverse_deviation_,
                .epsilon = layer.epsilon,
                .momentum = layer.momentum};
    back_ = {.relu = group_.relu,
             .gamma = forward_.gamma,
             .beta = forward_.beta,
             .mean = mean_,
             .inverse_deviation = inverse_deviation_};
  }

  // Floats for one step's sums.
  Tensor make_scratch(Lowering& lowering) const {
    const auto floats = static_cast<std::int64_t>(batch_norm_scratch(shape_));
    return floats == 0 ? Tensor{} : lowering.make({{floats}, DataType::f32, FormatTag::a});
  }
  std::span<float> floats_of(const Tensor& scratch) const {
    if (!scratch) return {};
    return {static_cast<float*>(scratch.data()), batch_norm_scratch(shape_)};
  }

  // Two parts of the gradient are added in the same pass, further ones before it. g, the gradient
  // after the ReLU, is the residual's too, and then dx needs its own memory; otherwise dx
  // overwrites dy.
  void place_gradients(Lowering& lowering, std::vector<Gradient> parts) {
    std::ranges::stable_sort(parts, {}, &Gradient::shared);
    if (parts.size() > 2) {
      std::vector<Gradient> rest(parts.begin() + 1, parts.end());
      const GradientSum sum(lowering, std::move(rest));
      sum.add_to(backward());
      dy2_ = sum.tensor();
      parts.resize(1);
    }
    for (const Gradient& part : parts) lowering.leave_unrounded(part);
    dy_ = parts[0].tensor;
    if (parts.size() == 2) dy2_ = parts[1].tensor;
    Tensor own = parts[0].shared ? lowering.make(dy_.desc()) : dy_;
    own.rounded = true;
    if (group_.residual || dy2_) g_ = own;
    if (group_.relu && group_.residual) lowering.use(y_);
    if (group_.residual) lowering.add_gradient(*group_.residual, g_);
    if (!lowering.wants_gradient(node_.inputs[0])) return;
    dx_ = group_.residual ? lowering.make(dy_.desc()) : own;
    dx_.rounded = true;
    lowering.add_gradient(node_.inputs[0], dx_);
  }

  nn::Group group_;
  const nn::Node& node_;
  Storage storage_;
  ImageShape shape_;
  std::vector<float> mean_;               // (padded C)
  std::vector<float> inverse_deviation_;  // (padded C)
  std::span<float> batches_tracked_;

  Tensor x_, residual_, y_, scratch_;
  BatchNormForward forward_;

  Tensor dy_, dy2_, g_, dx_, back_scratch_;
  BatchNormBackward back_;
};

}  // namespace

OpPointer make_batch_norm(Lowering& lowering, const nn::Group& group, const nn::BatchNorm& layer) {
  return std::make_unique<BatchNormOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
