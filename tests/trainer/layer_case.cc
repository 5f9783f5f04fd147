#include "tests/trainer/layer_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/base/check.h"
#include "trainer/nn/fusion.h"

namespace millrace::trainer {
namespace {

using nn::GraphBuilder;
using nn::Value;

std::string text(nn::Extent2d extent) { return fmt::format("{},{}", extent.height, extent.width); }

// A layer's options as "name=value name=value".
struct Options {
  std::string operator()(const nn::Conv2d& layer) const {
    return fmt::format(
        "channels={} kernel={} stride={} padding={} dilation={} groups={} bias={:d} flat={:d}",
        layer.channels, text(layer.kernel), text(layer.stride), text(layer.padding),
        text(layer.dilation), layer.groups, layer.bias, layer.flat);
  }
  std::string operator()(const nn::ConvTranspose2d& layer) const {
    return fmt::format("channels={} kernel={} stride={} padding={} output_padding={} bias={:d}",
                       layer.channels, text(layer.kernel), text(layer.stride), text(layer.padding),
                       text(layer.output_padding), layer.bias);
  }
  std::string operator()(const nn::BatchNorm& layer) const {
    return fmt::format("epsilon={} momentum={}", layer.epsilon, layer.momentum);
  }
  std::string operator()(const nn::LayerNorm& layer) const {
    return fmt::format("epsilon={}", layer.epsilon);
  }
  std::string operator()(const nn::Attention& layer) const {
    return fmt::format("heads={} causal={:d}", layer.heads, layer.causal);
  }
  std::string operator()(const nn::TakeToken& layer) const {
    return fmt::format("index={}", layer.index);
  }
  std::string operator()(const nn::Activation& layer) const {
    using nn::ActivationKind;
    if (layer.kind == ActivationKind::kLeakyRelu) {
      return fmt::format("kind=leaky_relu slope={}", layer.slope);
    }
    return fmt::format("kind={}", word(layer.kind));
  }
  std::string operator()(const nn::Dropout& layer) const {
    return fmt::format("probability={}", layer.probability);
  }
  std::string operator()(const nn::StochasticDepth& layer) const {
    return fmt::format("probability={}", layer.probability);
  }
  std::string operator()(const nn::MaxPool2d& layer) const { return window(layer); }
  std::string operator()(const nn::AvgPool2d& layer) const { return window(layer); }
  std::string operator()(const nn::AdaptiveAvgPool2d& layer) const {
    return "size=" + text(layer.size);
  }
  std::string operator()(const nn::Upsample& layer) const {
    const bool nearest = layer.mode == nn::UpsampleMode::kNearest;
    return fmt::format("factor={} mode={}", layer.factor, nearest ? "nearest" : "bilinear");
  }
  std::string operator()(const nn::Reshape& layer) const {
    return fmt::format("shape={}", fmt::join(layer.shape, ","));
  }
  std::string operator()(const nn::Linear& layer) const {
    return fmt::format("features={} bias={:d}", layer.features, layer.bias);
  }
  template <typename Plain>
  std::string operator()(const Plain&) const {
    return {};
  }

 private:
  static const char* word(nn::ActivationKind kind) {
    using nn::ActivationKind;
    switch (kind) {
      case ActivationKind::kSigmoid:
        return "sigmoid";
      case ActivationKind::kSilu:
        return "silu";
      case ActivationKind::kHardSwish:
        return "hardswish";
      case ActivationKind::kHardSigmoid:
        return "hardsigmoid";
      case ActivationKind::kGelu:
      case ActivationKind::kLeakyRelu:
        break;
    }
    return "gelu";
  }
  template <typename Pool>
  static std::string window(const Pool& layer) {
    return fmt::format("kernel={} stride={} padding={}", text(layer.kernel), text(layer.stride),
                       text(layer.padding));
  }
};

// The builder's member for a layer.
struct Append {
  GraphBuilder& builder;
  const std::string& name;
  const std::vector<Value>& x;

  Value operator()(const nn::Input&) const {
    MILLRACE_CHECK(false, "an input is no layer to look at");
    return {};
  }
  Value operator()(const nn::Conv2d& layer) const { return builder.conv2d(name, x[0], layer); }
  Value operator()(const nn::ConvTranspose2d& layer) const {
    return builder.conv_transpose2d(name, x[0], layer);
  }
  Value operator()(const nn::BatchNorm& layer) const {
    return builder.batch_norm(name, x[0], layer);
  }
  Value operator()(const nn::LayerNorm& layer) const {
    return builder.layer_norm(name, x[0], layer);
  }
  Value operator()(const nn::ChannelScale& layer) const {
    return builder.channel_scale(name, x[0], layer);
  }
  Value operator()(const nn::Tokens& layer) const { return builder.tokens(name, x[0], layer); }
  Value operator()(const nn::Attention& layer) const {
    return builder.attention(name, x[0], layer);
  }
  Value operator()(const nn::TakeToken& layer) const {
    return builder.take_token(name, x[0], layer);
  }
  Value operator()(const nn::Relu&) const { return builder.relu(name, x[0]); }
  Value operator()(const nn::Activation& layer) const {
    using nn::ActivationKind;
    if (layer.kind == ActivationKind::kSigmoid) return builder.sigmoid(name, x[0]);
    if (layer.kind == ActivationKind::kGelu) return builder.gelu(name, x[0]);
    if (layer.kind == ActivationKind::kSilu) return builder.silu(name, x[0]);
    if (layer.kind == ActivationKind::kHardSwish) return builder.hard_swish(name, x[0]);
    if (layer.kind == ActivationKind::kHardSigmoid) return builder.hard_sigmoid(name, x[0]);
    return builder.leaky_relu(name, x[0], layer.slope);
  }
  Value operator()(const nn::Softmax&) const { return builder.softmax(name, x[0]); }
  Value operator()(const nn::Add&) const { return builder.add(name, x[0], x[1]); }
  Value operator()(const nn::Scale&) const { return builder.scale(name, x[0], x[1]); }
  Value operator()(const nn::StochasticDepth& layer) const {
    return builder.stochastic_depth(name, x[0], layer);
  }
  Value operator()(const nn::Concat&) const { return builder.concat(name, x); }
  Value operator()(const nn::Dropout& layer) const { return builder.dropout(name, x[0], layer); }
  Value operator()(const nn::MaxPool2d& layer) const {
    return builder.max_pool2d(name, x[0], layer);
  }
  Value operator()(const nn::AvgPool2d& layer) const {
    return builder.avg_pool2d(name, x[0], layer);
  }
  Value operator()(const nn::AdaptiveAvgPool2d& layer) const {
    return builder.adaptive_avg_pool2d(name, x[0], layer);
  }
  Value operator()(const nn::Upsample& layer) const { return builder.upsample(name, x[0], layer); }
  Value operator()(const nn::Flatten&) const { return builder.flatten(name, x[0]); }
  Value operator()(const nn::Reshape& layer) const {
    return builder.reshape(name, x[0], layer.shape);
  }
  Value operator()(const nn::Linear& layer) const { return builder.linear(name, x[0], layer); }
  Value operator()(const nn::Custom& layer) const { return builder.custom(name, layer.layer, x); }
};

// A case's place in its model.
struct Place {
  std::vector<std::size_t> nodes;  // of its layers
  std::vector<Value> inputs;
};

Place place_of(const nn::Graph& graph, const nn::Group& group) {
  Place place{{group.head}, graph.nodes()[group.head].inputs};
  if (group.residual) {
    place.inputs.push_back(*group.residual);
    const std::size_t last = group.result;
    place.nodes.push_back(group.relu ? graph.nodes()[last].inputs[0].node : last);
  }
  if (group.relu) place.nodes.push_back(group.result);
  return place;
}

LayerCase take(const nn::Graph& graph, const Place& place) {
  LayerCase taken;
  for (const std::size_t node : place.nodes) taken.layers.push_back(graph.nodes()[node].layer);
  for (const Value input : place.inputs) {
    taken.inputs.push_back(graph.node(input).shape);
    taken.reads_image |= std::holds_alternative<nn::Input>(graph.node(input).layer);
  }
  const auto ends_here = [&](const nn::GraphOutput& output) {
    return output.value.node == place.nodes.back();
  };
  taken.makes_output = std::ranges::any_of(graph.outputs(), ends_here);
  return taken;
}

std::vector<Value> add_inputs(GraphBuilder& builder, const LayerCase& taken,
                              std::int64_t batch_size) {
  if (taken.reads_image) return {builder.input("image", taken.inputs[0])};
  const Value identity = builder.input("identity", {batch_size});
  std::vector<Value> inputs;
  for (const nn::Shape& shape : taken.inputs) {
    const std::string name = "x" + std::to_string(inputs.size());
    const Value x =
        builder.linear(name, identity, {.features = nn::num_values(shape), .bias = false});
    inputs.push_back(builder.reshape(name + ".shape", x, shape));
  }
  return inputs;
}

}  // namespace

std::string describe(const LayerCase& taken) {
  std::string words;
  for (const nn::Layer& layer : taken.layers) {
    words += fmt::format("{}({}) ", nn::layer_name(layer), std::visit(Options{}, layer));
  }
  words += "of";
  for (const nn::Shape& shape : taken.inputs) words += fmt::format(" {}", fmt::join(shape, "x"));
  if (taken.reads_image) words += " from the image";
  if (taken.makes_output) words += " to the output";
  return words;
}

std::vector<LayerCase> layers_of(const nn::Graph& graph) {
  std::vector<LayerCase> cases;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const nn::Node& node = graph.nodes()[i];
    if (!node.inputs.empty()) cases.push_back(take(graph, {{i}, node.inputs}));
  }
  for (const nn::Group& group : nn::fuse(graph)) {
    const Place place = place_of(graph, group);
    if (place.nodes.size() > 1) cases.push_back(take(graph, place));
  }
  return cases;
}

nn::Graph graph_of(const LayerCase& taken, std::int64_t batch_size) {
  GraphBuilder builder;
  std::vector<Value> reads = add_inputs(builder, taken, batch_size);
  const Value residual = reads.back();
  std::string name = "layer";
  for (const nn::Layer& layer : taken.layers) {
    const Value y = std::visit(Append{builder, name, reads}, layer);
    reads = {y, residual};
    name += '+';
  }
  // The result of a layer within a model has the plan's type.
  Value result = reads[0];
  if (!taken.makes_output) result = builder.reshape("result", result, builder.shape(result));
  builder.output("result", result);
  return builder.build();
}

}  // namespace millrace::trainer
