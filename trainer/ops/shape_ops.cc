// Ops that move values without changing them: concatenation and reshapes.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

// The order without blocks: (N, C, H, W) or (N, C).
Desc plain_order(const Tensor& tensor) {
  const Dims dims = dims_of(tensor.desc());
  return {dims, type_of(tensor.desc()), dims.size() == 4 ? FormatTag::abcd : FormatTag::ab};
}

// Along the channels. Parts of whole blocks, and those of channels-last images and of features, lie
// in the whole as rows of its memory; others are copied through the plain order, in which each part
// is a slice.
class ConcatOp final : public Op {
 public:
  ConcatOp(Lowering& lowering, const nn::Group& group)
      : context_(lowering.context()),
        inputs_(lowering.node(group.head).inputs),
        lies_in_rows_(std::ranges::all_of(inputs_, [&](nn::Value input) {
          const nn::Shape& shape = lowering.graph().node(input).shape;
          return shape.size() == 1 || context_.layout.padded(shape[0]) == shape[0];
        })) {
    const Tensor y = lowering.rounded_result(group.result);  // as its parts
    const Tensor whole = lies_in_rows_ ? y : lowering.make(plain_order(y));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      const Tensor x = lowering.value(input);
      forward().push_back(
          lies_in_rows_ ? rows_work(x, whole, channel, true)
                        : reorder_work(context_, x.memory, slice(lowering, whole, x, channel)));
      channel += dims_of(x.desc())[1];
    }
    if (!lies_in_rows_) forward().push_back(reorder_work(context_, whole.memory, y.memory));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const GradientSum dy(lowering, std::move(parts));
    dy.add_to(backward());
    const Tensor whole = lies_in_rows_ ? dy.tensor() : lowering.make(plain_order(dy.tensor()));
    if (!lies_in_rows_)
      backward().push_back(reorder_work(context_, dy.tensor().memory, whole.memory));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      const Tensor dx = lowering.rounded_gradient(input);
      backward().push_back(
          lies_in_rows_ ? rows_work(dx, whole, channel, false)
                        : reorder_work(context_, slice(lowering, whole, dx, channel), dx.memory));
      channel += dims_of(dx.desc())[1];
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

  // Copies the part to its channels of the whole, or back.
  Work rows_work(const Tensor& part, const Tensor& whole, std::int64_t channel, bool to) const {
    const std::int64_t row = row_bytes(part.desc());
    const std::int64_t stride = row_bytes(whole.desc());
    const std::int64_t offset = row / dims_of(part.desc())[1] * channel;
    const auto rows = static_cast<std::int64_t>(part.desc().get_size()) / row;
    return loop_work("concatenation", {part.memory, part.memory}, [=](const Pass&) {
      auto* const beside = static_cast<std::byte*>(part.data());
      auto* const inside = static_cast<std::byte*>(whole.data()) + offset;
      copy_rows({.rows = rows,
                 .bytes = row,
                 .from = to ? beside : inside,
                 .from_stride = to ? row : stride,
                 .to = to ? inside : beside,
                 .to_stride = to ? stride : row});
    });
  }

  // Of a sample in blocks, of a pixel in channels-last order.
  std::int64_t row_bytes(const Desc& desc) const {
    const Dims dims = dims_of(desc);
    const bool pixels = dims.size() == 4 && context_.layout.channels_last();
    return static_cast<std::int64_t>(desc.get_size()) /
           (pixels ? dims[0] * dims[2] * dims[3] : dims[0]);
  }

  const Context& context_;
  std::vector<nn::Value> inputs_;
  bool lies_in_rows_;
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
  // Whether the plan's order and the plain one are the same for this shape.
  bool agrees(const nn::Shape& shape) const {
    return shape.size() == 1 ||
           (shape[1] == 1 && shape[2] == 1 && context_.layout.padded(shape[0]) == shape[0]);
  }
  // Features are in plain order: an image is copied straight to or from them.
  void convert(Lowering& lowering, const Tensor& from, const Tensor& to, Works& works) const {
    const bool to_features = dims_of(to.desc()).size() == 2;
    const bool from_features = dims_of(from.desc()).size() == 2;
    if (to_features || from_features) {
      const Tensor source = to_features ? from : lowering.view(from, plain_order(to));
      const Tensor target = to_features ? lowering.view(to, plain_order(from)) : to;
      works.push_back(reorder_work(context_, source.memory, target.memory));
      return;
    }
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
