// Hard activations, and channels times their factors, by millrace's own loops.
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

// (x + 3) / 6 within 0 and 1, or that times x.
class HardActivationOp final : public Op {
 public:
  HardActivationOp(Lowering& lowering, const nn::Group& group, bool times_x)
      : input_(lowering.node(group.head).inputs[0]),
        times_x_(times_x),
        storage_(storage_of(lowering.context())),
        x_(lowering.unrounded_value(input_)),
        y_(lowering.rounded_result(group.result)) {
    const nn::Shape& shape = lowering.node(group.head).shape;
    // A block's padding has to stay zero, and the gate of zero is a half.
    if (!times_x && shape.size() == 3) padding_ = image_shape(lowering.context(), shape);
    forward().push_back(
        loop_work("activation", {x_.memory, y_.memory}, [this](const Pass&) { compute(); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(x_);
    dy_ = GradientSum(lowering, std::move(parts));
    dx_ = dy_.in_place(lowering, input_);
    dy_.add_to(backward());
    backward().push_back(loop_work("activation", {dy_.tensor().memory, x_.memory, dx_.memory},
                                   [this](const Pass&) { compute_back(); }));
  }

 private:
  void compute() const {
    hard_activation(storage_, padded_values(y_.memory),
                    {.x = x_.data(), .out = y_.data(), .times_x = times_x_});
    if (padding_) clear_padding(*padding_, value_bytes(storage_), y_.data());
  }
  void compute_back() const {
    hard_activation(
        storage_, padded_values(dx_.memory),
        {.x = x_.data(), .dy = dy_.tensor().data(), .out = dx_.data(), .times_x = times_x_});
  }

  nn::Value input_;
  bool times_x_;
  Storage storage_;
  std::optional<ImageShape> padding_;
  Tensor x_, y_, dx_;
  GradientSum dy_;
};

// An image (C, H, W) and factors (C, 1, 1).
class ScaleOp final : public Op {
 public:
  ScaleOp(Lowering& lowering, const nn::Group& group)
      : inputs_(lowering.node(group.head).inputs),
        shape_(shape_of(image_shape(lowering.context(), lowering.node(group.head).shape))),
        storage_(storage_of(lowering.context())),
        x_(lowering.unrounded_value(inputs_[0])),
        factor_(lowering.unrounded_value(inputs_[1])),
        y_(lowering.rounded_result(group.result)) {
    forward().push_back(
        loop_work("scale", {x_.memory, factor_.memory, y_.memory}, [this](const Pass&) {
          scale_channels(storage_, shape_,
                         {.x = x_.data(), .factor = factor_.data(), .y = y_.data()});
        }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(x_);
    lowering.use(factor_);
    dy_ = GradientSum(lowering, std::move(parts));
    dx_ = lowering.rounded_gradient(inputs_[0]);
    dfactor_ = lowering.rounded_gradient(inputs_[1]);
    dy_.add_to(backward());
    backward().push_back(loop_work(
        "scale", {dy_.tensor().memory, x_.memory, factor_.memory, dx_.memory, dfactor_.memory},
        [this](const Pass&) {
          scale_channels_backward(storage_, shape_,
                                  {.x = x_.data(),
                                   .factor = factor_.data(),
                                   .dy = dy_.tensor().data(),
                                   .dx = dx_.data(),
                                   .dfactor = dfactor_.data()});
        }));
  }

 private:
  static ScaleShape shape_of(const ImageShape& image) {
    return {.planes = image.images * image.blocks, .block = image.block, .pixels = image.pixels};
  }

  std::vector<nn::Value> inputs_;
  ScaleShape shape_;
  Storage storage_;
  Tensor x_, factor_, y_, dx_, dfactor_;
  GradientSum dy_;
};

}  // namespace

OpPointer make_hard_activation(Lowering& lowering, const nn::Group& group, bool times_x) {
  return std::make_unique<HardActivationOp>(lowering, group, times_x);
}

OpPointer make_scale(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ScaleOp>(lowering, group);
}

}  // namespace millrace::trainer::ops
