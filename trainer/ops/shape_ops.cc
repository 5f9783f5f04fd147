// Ops that move values without changing them: concatenation and reshapes.
#include <utility>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

// The order without blocks: (N, C, H, W) or (N, C).
Desc plain_order(const Tensor& tensor) {
  const Dims dims = dims_of(tensor.desc());
  return {dims, type_of(tensor.desc()), dims.size() == 4 ? FormatTag::abcd : FormatTag::ab};
}

// Along the channels, through the plain order, in which each part is a slice.
class ConcatOp final : public Op {
 public:
  ConcatOp(Lowering& lowering, const nn::Group& group)
      : context_(lowering.context()), inputs_(lowering.node(group.head).inputs) {
    Tensor y = lowering.make(lowering.gradient_desc({group.result}));
    y.rounded = true;  // as its parts
    const Tensor whole = lowering.make(plain_order(y));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      const Tensor x = lowering.value(input);
      forward().push_back(reorder_work(context_, x.memory, slice(lowering, whole, x, channel)));
      channel += dims_of(x.desc())[1];
    }
    forward().push_back(reorder_work(context_, whole.memory, y.memory));
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const GradientSum dy(lowering, std::move(parts));
    dy.add_to(backward());
    const Tensor whole = lowering.make(plain_order(dy.tensor()));
    backward().push_back(reorder_work(context_, dy.tensor().memory, whole.memory));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      Tensor dx = lowering.make(lowering.gradient_desc(input));
      dx.rounded = true;
      backward().push_back(reorder_work(context_, slice(lowering, whole, dx, channel), dx.memory));
      channel += dims_of(dx.desc())[1];
      lowering.add_gradient(input, dx);
    }
  }

 private:
  // The channels of `part` in `whole`, which is in plain order.
  static dnnl::memory slice(Lowering& lowering, const Tensor& whole, const Tensor& part,
                            std::int64_t channel) {
    Dims offsets(dims_of(whole.desc()).size(), 0);
    offsets[1] = channel;
    return lowering.view(whole, whole.desc().submemory_desc(dims_of(part.desc()), offsets)).memory;
  }

  const Context& context_;
  std::vector<nn::Value> inputs_;
};

// The same values in (N, C, H, W) order as another shape: a view if both layouts agree, else a copy
// through the plain order.
class ReshapeOp final : public Op {
 public:
  ReshapeOp(Lowering& lowering, const nn::Group& group)
      : context_(lowering.context()), input_(lowering.node(group.head).inputs[0]) {
    const Tensor x = lowering.value(input_);
    const nn::Value result{group.result};
    is_view_ =
        agrees(lowering.graph().node(input_).shape) && agrees(lowering.graph().node(result).shape);
    const Desc wanted = lowering.gradient_desc(result);
    Tensor y = is_view_ ? lowering.view(x, wanted) : lowering.make(wanted);
    y.rounded = true;  // as its input
    if (!is_view_) convert(lowering, x, y, forward());
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const GradientSum sum(lowering, std::move(parts));
    sum.add_to(backward());
    const Desc image = lowering.gradient_desc(input_);
    const Tensor& dy = sum.tensor();
    Tensor dx = is_view_ ? lowering.view(dy, image) : lowering.make(image);
    dx.rounded = true;
    if (!is_view_) convert(lowering, dy, dx, backward());
    lowering.add_gradient(input_, dx, is_view_ && sum.shared());
  }

 private:
  // Whether blocked and plain order are the same for this shape.
  bool agrees(const nn::Shape& shape) const {
    return shape.size() == 1 ||
           (shape[1] == 1 && shape[2] == 1 && shape[0] % context_.layout.block == 0);
  }
  void convert(Lowering& lowering, const Tensor& from, const Tensor& to, Works& works) const {
    const Tensor middle = lowering.make(plain_order(from));
    works.push_back(reorder_work(context_, from.memory, middle.memory));
    works.push_back(
        reorder_work(context_, lowering.view(middle, plain_order(to)).memory, to.memory));
  }

  const Context& context_;
  nn::Value input_;
  bool is_view_ = false;
};

}  // namespace

OpPointer make_concat(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ConcatOp>(lowering, group);
}

OpPointer make_flatten(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ReshapeOp>(lowering, group);
}

OpPointer make_reshape(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ReshapeOp>(lowering, group);
}

}  // namespace millrace::trainer::ops
