// Tokens of an image's pixels with their positions, and one token's features.
#include <cstring>
#include <utility>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/token_kernels.h"

namespace millrace::trainer::ops {
namespace {

class TokensOp final : public Op {
 public:
  TokensOp(Lowering& lowering, const nn::Group& group)
      : node_(lowering.node(group.head)),
        storage_(storage_of(lowering.context())),
        shape_(image_shape(lowering.context(), node_.shape)),
        x_(lowering.unrounded_value(node_.inputs[0])),
        y_(lowering.rounded_result(group.result)),
        token_(lowering.parameter_values(node_.weight)),
        positions_(lowering.parameter_values(node_.bias)) {
    forward().push_back(
        loop_work("tokens", {x_.memory, y_.memory}, [this](const Pass&) { compute(); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    if (lowering.wants_gradient(node_.inputs[0])) dx_ = lowering.rounded_gradient(node_.inputs[0]);
    dtoken_ = lowering.gradient_values(node_.weight);
    dpositions_ = lowering.gradient_values(node_.bias);
    dy_.add_to(backward());
    backward().push_back(loop_work("tokens", {dy_.tensor().memory, dx_.memory},
                                   [this](const Pass&) { compute_back(); }));
  }

 private:
  void compute() const {
    add_tokens(storage_, shape_,
               {.x = x_.data(), .y = y_.data(), .token = token_, .positions = positions_});
    clear_padding(shape_, value_bytes(storage_), y_.data());
  }
  void compute_back() const {
    add_tokens_backward(storage_, shape_,
                        {.dy = dy_.tensor().data(),
                         .dx = dx_ ? dx_.data() : nullptr,
                         .dtoken = dtoken_,
                         .dpositions = dpositions_});
    if (!dx_) return;
    ImageShape pixels = shape_;
    pixels.pixels -= 1;
    clear_padding(pixels, value_bytes(storage_), dx_.data());
  }

  const nn::Node& node_;
  Storage storage_;
  ImageShape shape_;
  Tensor x_, y_, dx_;
  std::span<const float> token_, positions_;
  std::span<float> dtoken_, dpositions_;
  GradientSum dy_;
};

class TakeTokenOp final : public Op {
 public:
  TakeTokenOp(Lowering& lowering, const nn::Group& group, const nn::TakeToken& layer)
      : input_(lowering.node(group.head).inputs[0]),
        copy_{.image = image_shape(lowering.context(), lowering.graph().node(input_).shape),
              .row = layer.index,
              .value_bytes = value_bytes(storage_of(lowering.context()))} {
    const Tensor x = lowering.value(input_);
    const Tensor y = lowering.rounded_result(group.result);  // as its input
    forward().push_back(loop_work("token", {y.memory, y.memory}, [this, x, y](const Pass&) {
      copy_row_from(copy_, x.data(), y.data());
    }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const GradientSum dy(lowering, std::move(parts));
    const Tensor dx = lowering.rounded_gradient(input_);
    dy.add_to(backward());
    backward().push_back(loop_work("token", {dx.memory, dy.tensor().memory},
                                   [this, dx, dy = dy.tensor()](const Pass&) {
                                     std::memset(dx.data(), 0, dx.desc().get_size());
                                     copy_row_to(copy_, dy.data(), dx.data());
                                   }));
  }

 private:
  nn::Value input_;
  RowCopyOf copy_;
};

}  // namespace

OpPointer make_tokens(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<TokensOp>(lowering, group);
}

OpPointer make_take_token(Lowering& lowering, const nn::Group& group, const nn::TakeToken& layer) {
  return std::make_unique<TakeTokenOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
