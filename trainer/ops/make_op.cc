#include <algorithm>

#include "io/base/error.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

// One call operator per layer; std::visit() does not compile without all of them.
struct Maker {
  Lowering& lowering;
  const nn::Group& group;

  OpPointer operator()(const nn::Input&) const {
    throw Error(ErrorCode::kUnsupported, "an input is not an operation");
  }
  OpPointer operator()(const nn::Conv2d& layer) const {
    return make_conv2d(lowering, group, layer);
  }
  OpPointer operator()(const nn::ConvTranspose2d& layer) const {
    return make_conv_transpose2d(lowering, group, layer);
  }
  OpPointer operator()(const nn::Activation& layer) const {
    if (layer.kind == nn::ActivationKind::kHardSwish)
      return make_hard_activation(lowering, group, true);
    if (layer.kind == nn::ActivationKind::kHardSigmoid)
      return make_hard_activation(lowering, group, false);
    return make_activation(lowering, group, layer);
  }
  OpPointer operator()(const nn::Scale&) const { return make_scale(lowering, group); }
  OpPointer operator()(const nn::StochasticDepth& layer) const {
    return make_stochastic_depth(lowering, group, layer);
  }
  OpPointer operator()(const nn::Softmax&) const { return make_softmax(lowering, group); }
  OpPointer operator()(const nn::Concat&) const { return make_concat(lowering, group); }
  OpPointer operator()(const nn::Upsample& layer) const {
    return make_upsample(lowering, group, layer);
  }
  OpPointer operator()(const nn::AvgPool2d& layer) const {
    return make_avg_pool(lowering, group, layer);
  }
  OpPointer operator()(const nn::Reshape&) const { return make_reshape(lowering, group); }
  OpPointer operator()(const nn::BatchNorm& layer) const {
    return make_batch_norm(lowering, group, layer);
  }
  OpPointer operator()(const nn::LayerNorm& layer) const {
    return make_layer_norm(lowering, group, layer);
  }
  OpPointer operator()(const nn::ChannelScale&) const {
    return make_channel_scale(lowering, group);
  }
  OpPointer operator()(const nn::Tokens&) const { return make_tokens(lowering, group); }
  OpPointer operator()(const nn::Attention& layer) const {
    return make_attention(lowering, group, layer);
  }
  OpPointer operator()(const nn::TakeToken& layer) const {
    return make_take_token(lowering, group, layer);
  }
  OpPointer operator()(const nn::Relu&) const { return make_relu(lowering, group); }
  OpPointer operator()(const nn::Add&) const { return make_add(lowering, group); }
  OpPointer operator()(const nn::Dropout& layer) const {
    return make_dropout(lowering, group, layer);
  }
  OpPointer operator()(const nn::MaxPool2d& layer) const {
    return make_max_pool(lowering, group, layer);
  }
  OpPointer operator()(const nn::AdaptiveAvgPool2d&) const {
    return make_adaptive_avg_pool(lowering, group);
  }
  OpPointer operator()(const nn::Flatten&) const { return make_flatten(lowering, group); }
  OpPointer operator()(const nn::Linear& layer) const {
    return make_linear(lowering, group, layer);
  }
  OpPointer operator()(const nn::Custom& layer) const {
    return make_custom(lowering, group, layer);
  }
};

}  // namespace

OpPointer make_op(Lowering& lowering, const nn::Group& group) {
  return std::visit(Maker{lowering, group}, lowering.node(group.head).layer);
}

ImageShape image_shape(const Context& context, const nn::Shape& shape) {
  const std::int64_t channels = shape[0];
  if (shape.size() == 1)
    return {.images = context.batch_size,
            .blocks = 1,
            .pixels = 1,
            .block = channels,
            .channels = channels};
  return {.images = context.batch_size,
          .blocks = context.layout.blocks_of(channels),
          .pixels = shape[1] * shape[2],
          .block = context.layout.block_of(channels),
          .channels = channels,
          .channels_last = context.layout.channels_last()};
}

DataType result_type(const Lowering& lowering, const nn::Group& group) {
  const nn::Graph& graph = lowering.graph();
  const auto is_result = [&](nn::Value value) { return value.node == group.result; };
  const bool is_output = std::ranges::any_of(graph.outputs(), is_result, &nn::GraphOutput::value);
  const bool is_read = std::ranges::any_of(graph.nodes(), [&](const nn::Node& node) {
    return std::ranges::any_of(node.inputs, is_result);
  });
  return is_output && !is_read && !group.relu ? DataType::f32 : lowering.context().type;
}

}  // namespace millrace::trainer::ops
