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
      calls_.push_back(reorder_call(x.memory, slice(lowering, whole, x, channel)));
      channel += dims_of(x.desc())[1];
    }
    calls_.push_back(reorder_call(whole.memory, y.memory));
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    const Tensor whole = lowering.make(plain_order(dy_.tensor()));
    calls_back_.push_back(reorder_call(dy_.tensor().memory, whole.memory));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      Tensor dx = lowering.make(lowering.gradient_desc(input));
      dx.rounded = true;
      calls_back_.push_back(reorder_call(slice(lowering, whole, dx, channel), dx.memory));
      channel += dims_of(dx.desc())[1];
      lowering.add_gradient(input, dx);
    }
  }

  void forward(const Pass&) override {
    for (const Call& call : calls_) call.run(context_);
  }
  void backward() override {
    dy_.run();
    for (const Call& call : calls_back_) call.run(context_);
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
  std::vector<Call> calls_, calls_back_;
  GradientSum dy_;
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
    if (!is_view_) convert(lowering, x, y, copies_);
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    const Desc image = lowering.gradient_desc(input_);
    const Tensor& dy = dy_.tensor();
    Tensor dx = is_view_ ? lowering.view(dy, image) : lowering.make(image);
    dx.rounded = true;
    if (!is_view_) convert(lowering, dy, dx, copies_back_);
    lowering.add_gradient(input_, dx, is_view_ && dy_.shared());
  }

  void forward(const Pass&) override { run(copies_); }
  void backward() override {
    dy_.run();
    run(copies_back_);
  }

 private:
  // Whether blocked and plain order are the same for this shape.
  bool agrees(const nn::Shape& shape) const {
    return shape.size() == 1 ||
           (shape[1] == 1 && shape[2] == 1 && shape[0] % context_.layout.block == 0);
  }
  static void convert(Lowering& lowering, const Tensor& from, const Tensor& to,
                      std::vector<Call>& calls) {
    const Tensor middle = lowering.make(plain_order(from));
    calls.push_back(reorder_call(from.memory, middle.memory));
    calls.push_back(reorder_call(lowering.view(middle, plain_order(to)).memory, to.memory));
  }
  void run(const std::vector<Call>& calls) const {
    for (const Call& call : calls) call.run(context_);
  }

  const Context& context_;
  nn::Value input_;
  bool is_view_ = false;
  std::vector<Call> copies_, copies_back_;
  GradientSum dy_;
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
