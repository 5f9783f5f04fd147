// One factory function per op; make_op() calls the one for a group.
#pragma once

#include <cstddef>
#include <memory>

#include "trainer/nn/fusion.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

using OpPointer = std::unique_ptr<Op>;

OpPointer make_op(Lowering& lowering, const nn::Group& group);

OpPointer make_conv2d(Lowering& lowering, const nn::Group& group, const nn::Conv2d& layer);
OpPointer make_linear(Lowering& lowering, const nn::Group& group, const nn::Linear& layer);
OpPointer make_batch_norm(Lowering& lowering, const nn::Group& group, const nn::BatchNorm& layer);
OpPointer make_layer_norm(Lowering& lowering, const nn::Group& group, const nn::LayerNorm& layer);
OpPointer make_channel_scale(Lowering& lowering, const nn::Group& group);
OpPointer make_tokens(Lowering& lowering, const nn::Group& group);
OpPointer make_take_token(Lowering& lowering, const nn::Group& group, const nn::TakeToken& layer);
OpPointer make_attention(Lowering& lowering, const nn::Group& group, const nn::Attention& layer);
OpPointer make_add(Lowering& lowering, const nn::Group& group);
OpPointer make_relu(Lowering& lowering, const nn::Group& group);
OpPointer make_dropout(Lowering& lowering, const nn::Group& group, const nn::Dropout& layer);
OpPointer make_stochastic_depth(Lowering& lowering, const nn::Group& group,
                                const nn::StochasticDepth& layer);
OpPointer make_hard_activation(Lowering& lowering, const nn::Group& group, bool times_x);
OpPointer make_scale(Lowering& lowering, const nn::Group& group);
OpPointer make_conv_transpose2d(Lowering& lowering, const nn::Group& group,
                                const nn::ConvTranspose2d& layer);
OpPointer make_activation(Lowering& lowering, const nn::Group& group, const nn::Activation& layer);
OpPointer make_softmax(Lowering& lowering, const nn::Group& group);
OpPointer make_concat(Lowering& lowering, const nn::Group& group);
OpPointer make_upsample(Lowering& lowering, const nn::Group& group, const nn::Upsample& layer);
OpPointer make_max_pool(Lowering& lowering, const nn::Group& group, const nn::MaxPool2d& layer);
OpPointer make_avg_pool(Lowering& lowering, const nn::Group& group, const nn::AvgPool2d& layer);
OpPointer make_reshape(Lowering& lowering, const nn::Group& group);
OpPointer make_adaptive_avg_pool(Lowering& lowering, const nn::Group& group);
OpPointer make_flatten(Lowering& lowering, const nn::Group& group);
OpPointer make_custom(Lowering& lowering, const nn::Group& group, const nn::Custom& layer);

/// Copies a graph's output out, float32 and dense, and its gradient in.
class OutputOp : public Op {
 public:
  virtual dnnl::memory output() const = 0;
  virtual dnnl::memory gradient() const = 0;
};
std::unique_ptr<OutputOp> make_output(Lowering& lowering, nn::Value value);

/// Of a value in a plan's own layout; features are images of one pixel, in one block.
ImageShape image_shape(const Context& context, const nn::Shape& shape);

/// The type of an op's result: float32 if its only use is as a graph's output.
DataType result_type(const Lowering& lowering, const nn::Group& group);

}  // namespace millrace::trainer::ops
