#include "trainer/nn/graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "trainer/nn/custom_layer.h"

namespace millrace::trainer::nn {
namespace {

// The output extent of a window that slides over `size` values.
std::int64_t window_outputs(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                            std::int64_t padding, std::int64_t dilation = 1) {
  const std::int64_t reach = dilation * (kernel - 1) + 1;
  return size + 2 * padding < reach ? 0 : (size + 2 * padding - reach) / stride + 1;
}

bool positive(Extent2d extent) { return extent.height > 0 && extent.width > 0; }

float draw(const InitSpec& init, KeyedRng& rng) {
  const float fan = static_cast<float>(init.fan);
  switch (init.kind) {
    case Init::kZeros:
      return 0.0F;
    case Init::kOnes:
      return 1.0F;
    case Init::kKaimingNormal:
      return rng.normal() * std::sqrt(2.0F / fan);
    case Init::kNormal001:
      return 0.01F * rng.normal();
    case Init::kNormal002:
      return 0.02F * rng.normal();
    case Init::kConstant:
      return init.value;
    case Init::kUniformMean:
      return std::sqrt(3.0F) * (2.0F * rng.uniform() - 1.0F) / fan;
    case Init::kUniformOut:
    case Init::kKaimingUniform:
    case Init::kDirac:
    case Init::kWhitening:
      return (2.0F * rng.uniform() - 1.0F) / std::sqrt(fan);
  }
  return 0.0F;
}

/// Makes the first filters of (O, I, H, W) pass on one input each: 1 in the middle.
void set_dirac(const Shape& shape, std::span<float> weights) {
  const std::int64_t pixels = shape[2] * shape[3];
  const std::int64_t middle = shape[2] / 2 * shape[3] + shape[3] / 2;
  for (std::int64_t i = 0; i < std::min(shape[0], shape[1]); ++i) {
    const auto filter = weights.subspan(static_cast<std::size_t>(i * shape[1] * pixels),
                                        static_cast<std::size_t>(shape[1] * pixels));
    std::ranges::fill(filter, 0.0F);
    filter[static_cast<std::size_t>(i * pixels + middle)] = 1.0F;
  }
}

}  // namespace

std::string parameter_name(const Node& node, std::string_view part) {
  const auto* const convolution = std::get_if<Conv2d>(&node.layer);
  const bool joins = convolution != nullptr && convolution->joins_names;
  return node.name + (joins ? '_' : '.') + std::string(part);
}

void Graph::initialise(std::uint64_t seed, std::span<float> parameters,
                       std::span<float> buffers) const {
  MILLRACE_CHECK(
      parameters.size() == parameters_.padded_size() && buffers.size() == buffers_.padded_size(),
      "the flat buffers do not fit the graph");
  std::ranges::fill(parameters, 0.0F);
  std::ranges::fill(buffers, 0.0F);
  const std::size_t count = parameters_.entries().size();
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& entry = parameters_.entries()[i];
    KeyedRng rng({.seed = seed, .index = count - 1 - i, .purpose = kInitialise});
    const std::span<float> values = parameters.subspan(entry.offset, entry.size);
    std::ranges::generate(values, [&] { return draw(init_[i], rng); });
    if (init_[i].kind == Init::kDirac && entry.shape.size() == 4) set_dirac(entry.shape, values);
  }
  for (const Parameter& entry : buffers_.entries()) {
    const float start = entry.name.ends_with("running_var") ? 1.0F : 0.0F;
    std::ranges::fill(buffers.subspan(entry.offset, entry.size), start);
  }
}

// A table runs from the last layer to the first, a builder's list the other way.
GraphBuilder::GraphBuilder(const Graph& graph) : nodes_(graph.nodes_), inputs_(graph.inputs_) {
  const std::vector<Parameter>& entries = graph.parameters_.entries();
  for (std::size_t i = entries.size(); i-- > 0;) {
    const Parameter& entry = entries[i];
    parameters_.push_back({entry.name, entry.shape, entry.decay, graph.init_[i], {}, entry.bounds});
    if (entry.grid_height > 0)
      parameters_.back().grid = Extent2d(entry.grid_height, entry.grid_width);
  }
  for (const Parameter& entry : graph.buffers_.entries())
    buffers_.push_back(
        {.name = entry.name, .shape = entry.shape, .decay = entry.decay, .init = {}});
  const auto turned = [&](std::size_t index) {
    return index == kNoParameter ? index : entries.size() - 1 - index;
  };
  for (Node& node : nodes_) {
    node.weight = turned(node.weight);
    node.bias = turned(node.bias);
  }
}

Value GraphBuilder::append(std::string name, Layer layer, std::vector<Value> inputs, Shape shape) {
  for (const Node& node : nodes_) {
    if (node.name == name) {
      throw Error(ErrorCode::kInvalidArgument, "a model has two layers named " + name);
    }
  }
  nodes_.push_back({std::move(name), std::move(layer), std::move(inputs), std::move(shape)});
  return {nodes_.size() - 1};
}

std::size_t GraphBuilder::declare(Declared parameter) {
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

void GraphBuilder::declare_weights(Value at, Weights weights) {
  if (weights.shared) return share_weights(at, weights.shape, weights.bias, *weights.shared);
  Node& node = nodes_[at.node];
  const std::int64_t features = node.shape[0];
  const std::int64_t fan_in = num_values(weights.shape) / weights.shape[0];
  node.weight =
      declare({parameter_name(node, "weight"), std::move(weights.shape), true, weights.init});
  if (weights.bias)
    node.bias =
        declare({parameter_name(node, "bias"), {features}, false, {weights.bias_init, fan_in}});
}

void GraphBuilder::share_weights(Value at, const Shape& shape, bool bias,
                                 const SharedWeights& shared) {
  Node& node = nodes_[at.node];
  if (shared.weight >= parameters_.size() || parameters_[shared.weight].shape != shape) {
    throw Error(ErrorCode::kInvalidArgument, std::string(layer_name(node.layer)) + " " + node.name +
                                                 ": needs a weight of " + shape_text(shape) +
                                                 ", the shared one differs");
  }
  node.weight = shared.weight;
  if (bias && shared.bias != kNoParameter) {
    node.bias = shared.bias;
  } else if (bias) {
    node.bias = declare({parameter_name(node, "bias"), {node.shape[0]}, false, {Init::kZeros, 1}});
  }
}

SharedWeights GraphBuilder::weights_of(Value x) const {
  const Node& node = nodes_[x.node];
  if (node.weight == kNoParameter) {
    throw Error(ErrorCode::kInvalidArgument, node.name + " has no weights to share");
  }
  return {node.weight, node.bias};
}

void GraphBuilder::refuse(const std::string& name, const Layer& layer, const std::string& why,
                          const std::vector<Value>& inputs) const {
  std::string message = std::string(layer_name(layer)) + " " + name + ": " + why + ", got ";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& input = nodes_[inputs[i].node];
    message += (i == 0 ? "" : " and ") + shape_text(input.shape) + " of " + input.name;
  }
  throw Error(ErrorCode::kInvalidArgument, message);
}

const Shape& GraphBuilder::image_shape(const std::string& name, const Layer& layer, Value x) const {
  if (shape(x).size() != 3) refuse(name, layer, "needs an image (C, H, W)", {x});
  return shape(x);
}

Value GraphBuilder::input(std::string name, Shape shape) {
  const bool fits = (shape.size() == 1 || shape.size() == 3) &&
                    std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; });
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                "input " + name + ": needs (C, H, W) or (F), got " + shape_text(shape));
  }
  const Value value = append(std::move(name), Input{}, {}, std::move(shape));
  inputs_.push_back(value);
  return value;
}

Value GraphBuilder::conv2d(std::string name, Value x, const Conv2d& options) {
  const Shape in = image_shape(name, options, x);
  const bool sane = options.channels > 0 && options.groups > 0 && positive(options.kernel) &&
                    positive(options.stride) && positive(options.dilation);
  if (!sane || in[0] % options.groups != 0 || options.channels % options.groups != 0) {
    refuse(name, options, "channels, groups, kernel, stride or dilation do not fit", {x});
  }
  const Shape out = {options.channels,
                     window_outputs(in[1], options.kernel.height, options.stride.height,
                                    options.padding.height, options.dilation.height),
                     window_outputs(in[2], options.kernel.width, options.stride.width,
                                    options.padding.width, options.dilation.width)};
  if (num_values(out) <= 0) refuse(name, options, "the image is smaller than the kernel", {x});
  Shape weight = {options.channels, in[0] / options.groups, options.kernel.height,
                  options.kernel.width};
  const std::int64_t patch = num_values(weight) / options.channels;
  const bool sees_patches = std::holds_alternative<Input>(nodes_[x.node].layer) &&
                            options.groups == 1 && options.dilation.height == 1 &&
                            options.dilation.width == 1 && options.channels == 2 * patch;
  if (options.init == Init::kWhitening && !sees_patches)
    refuse(name, options, "whitening needs the model's input, and two filters per value of a patch",
           {x});
  if (options.init_samples < 0 || (options.init_samples > 0 && options.init != Init::kWhitening))
    refuse(name, options, "start values of so many samples are whitening's", {x});
  if (options.flat) {
    if (options.groups != 1 || options.kernel.height != 1 || options.kernel.width != 1)
      refuse(name, options, "only 1x1 kernels in one group are flat", {x});
    weight.resize(2);
  }
  const std::int64_t fan_out = num_values(weight) / weight[1];
  const bool by_output = options.init == Init::kKaimingNormal;
  const Value value = append(std::move(name), options, {x}, out);
  declare_weights(value, {.shape = weight,
                          .init = {options.init, by_output ? fan_out : patch},
                          .bias = options.bias,
                          .bias_init = options.bias_init,
                          .shared = options.shared});
  return value;
}

Value GraphBuilder::batch_norm(std::string name, Value x, const BatchNorm& options) {
  const Shape in = image_shape(name, options, x);
  const Value value = append(std::move(name), options, {x}, in);
  Node& node = nodes_[value.node];
  const Shape channels = {in[0]};
  node.weight = declare(
      {node.name + ".weight", channels, false, {.kind = Init::kConstant, .value = options.start}});
  node.bias = declare({node.name + ".bias", channels, false, {Init::kZeros, 1}});
  node.buffers = buffers_.size();
  buffers_.push_back({node.name + ".running_mean", channels, false, {}});
  buffers_.push_back({node.name + ".running_var", channels, false, {}});
  buffers_.push_back({node.name + ".num_batches_tracked", {}, false, {}});
  return value;
}

Value GraphBuilder::layer_norm(std::string name, Value x, const LayerNorm& options) {
  const Shape in = shape(x);
  const Value value = append(std::move(name), options, {x}, in);
  Node& node = nodes_[value.node];
  node.weight = declare({node.name + ".weight", {in[0]}, false, {Init::kOnes, 1}});
  node.bias = declare({node.name + ".bias", {in[0]}, false, {Init::kZeros, 1}});
  return value;
}

Value GraphBuilder::channel_scale(std::string name, Value x, const ChannelScale& options) {
  const Shape in = image_shape(name, options, x);
  const Value value = append(std::move(name), options, {x}, in);
  Node& node = nodes_[value.node];
  const InitSpec init{.kind = Init::kConstant, .value = options.start};
  node.weight = declare({node.name, {in[0], 1, 1}, false, init});
  return value;
}

Value GraphBuilder::tokens(std::string name, Value x, const Tokens& options) {
  const Shape in = image_shape(name, options, x);
  const std::int64_t count = 1 + in[1] * in[2];
  const Value value = append(std::move(name), options, {x}, {in[0], count, 1});
  Node& node = nodes_[value.node];
  node.weight = declare({node.name, {1, 1, in[0]}, false, {Init::kZeros, 1}});
  node.bias = declare(
      {options.positions, {1, count, in[0]}, false, {Init::kNormal002, 1}, Extent2d(in[1], in[2])});
  return value;
}

Value GraphBuilder::attention(std::string name, Value x, const Attention& options,
                              std::optional<Value> mask) {
  const Shape in = image_shape(name, options, x);
  if (options.heads < 1 || in[0] % (3 * options.heads) != 0 || in[2] != 1)
    refuse(name, options,
           "needs tokens (3 * C, T, 1), with C a multiple of " + std::to_string(options.heads) +
               " heads",
           {x});
  const Shape out = {in[0] / 3, in[1], 1};
  if (!mask && options.masked == 0) return append(std::move(name), options, {x}, out);
  const bool fits = mask && std::holds_alternative<Input>(nodes_[mask->node].layer) &&
                    options.masked > 0 && options.masked < in[1] && shape(*mask).size() == 1 &&
                    shape(*mask)[0] >= options.masked;
  if (!fits)
    refuse(name, options, "needs a mask, an input (M), of all tokens but the first or fewer", {x});
  return append(std::move(name), options, {x, *mask}, out);
}

Value GraphBuilder::take_token(std::string name, Value x, const TakeToken& options) {
  const Shape in = image_shape(name, options, x);
  if (options.index < 0 || options.index >= in[1] || in[2] != 1)
    refuse(name, options,
           "needs tokens (C, T, 1), one of which is " + std::to_string(options.index), {x});
  return append(std::move(name), options, {x}, {in[0]});
}

Value GraphBuilder::relu(std::string name, Value x) {
  return append(std::move(name), Relu{}, {x}, Shape(shape(x)));
}

template <typename Pool>
Value GraphBuilder::pool(const std::string& name, Value x, const Pool& options) {
  const Shape in = image_shape(name, options, x);
  if (!positive(options.kernel) || !positive(options.stride)) {
    refuse(name, options, "needs a kernel and a stride above 0", {x});
  }
  const Shape out = {
      in[0],
      window_outputs(in[1], options.kernel.height, options.stride.height, options.padding.height),
      window_outputs(in[2], options.kernel.width, options.stride.width, options.padding.width)};
  if (num_values(out) <= 0) refuse(name, options, "the image is smaller than the kernel", {x});
  return append(name, options, {x}, out);
}

Value GraphBuilder::conv_transpose2d(std::string name, Value x, const ConvTranspose2d& options) {
  const Shape in = image_shape(name, options, x);
  if (options.channels <= 0 || !positive(options.kernel) || !positive(options.stride)) {
    refuse(name, options, "channels, kernel or stride do not fit", {x});
  }
  const auto outputs = [](std::int64_t size, std::int64_t kernel, std::int64_t stride,
                          std::int64_t padding, std::int64_t more) {
    return (size - 1) * stride - 2 * padding + kernel + more;
  };
  const Shape out = {options.channels,
                     outputs(in[1], options.kernel.height, options.stride.height,
                             options.padding.height, options.output_padding.height),
                     outputs(in[2], options.kernel.width, options.stride.width,
                             options.padding.width, options.output_padding.width)};
  if (out[1] <= 0 || out[2] <= 0) refuse(name, options, "nothing is left of the image", {x});
  const Shape weight = {in[0], options.channels, options.kernel.height, options.kernel.width};
  const std::int64_t fan = num_values(weight) / in[0];
  const Value value = append(std::move(name), options, {x}, out);
  declare_weights(
      value,
      {.shape = weight, .init = {Init::kKaimingUniform, fan}, .bias = options.bias, .shared = {}});
  return value;
}

Value GraphBuilder::leaky_relu(std::string name, Value x, float slope) {
  return append(std::move(name), Activation{ActivationKind::kLeakyRelu, slope}, {x},
                Shape(shape(x)));
}

Value GraphBuilder::sigmoid(std::string name, Value x) {
  return append(std::move(name), Activation{ActivationKind::kSigmoid, 0}, {x}, Shape(shape(x)));
}

Value GraphBuilder::gelu(std::string name, Value x) {
  return append(std::move(name), Activation{ActivationKind::kGelu, 0}, {x}, Shape(shape(x)));
}

Value GraphBuilder::silu(std::string name, Value x) {
  return append(std::move(name), Activation{ActivationKind::kSilu, 1}, {x}, Shape(shape(x)));
}

Value GraphBuilder::hard_swish(std::string name, Value x) {
  return append(std::move(name), Activation{ActivationKind::kHardSwish, 0}, {x}, Shape(shape(x)));
}

Value GraphBuilder::hard_sigmoid(std::string name, Value x) {
  return append(std::move(name), Activation{ActivationKind::kHardSigmoid, 0}, {x}, Shape(shape(x)));
}

Value GraphBuilder::softmax(std::string name, Value x) {
  return append(std::move(name), Softmax{}, {x}, Shape(shape(x)));
}

Value GraphBuilder::concat(std::string name, const std::vector<Value>& parts) {
  if (parts.empty()) throw Error(ErrorCode::kInvalidArgument, "concat " + name + ": no inputs");
  Shape out = shape(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Shape rest = shape(parts[i]);
    const std::int64_t channels = rest[0];
    rest[0] = out[0];
    if (rest != out) refuse(name, Concat{}, "needs values that differ in channels alone", parts);
    out[0] += channels;
  }
  return append(std::move(name), Concat{}, parts, out);
}

Value GraphBuilder::reshape(std::string name, Value x, const Shape& to) {
  const bool known = to.size() == 1 || to.size() == 3;
  if (!known || num_values(to) != num_values(shape(x))) {
    refuse(name, Reshape{to}, "cannot become " + shape_text(to), {x});
  }
  return append(std::move(name), Reshape{to}, {x}, to);
}

Value GraphBuilder::upsample(std::string name, Value x, const Upsample& options) {
  const Shape in = image_shape(name, options, x);
  if (options.factor < 1) refuse(name, options, "needs a factor above 0", {x});
  return append(std::move(name), options, {x},
                {in[0], in[1] * options.factor, in[2] * options.factor});
}

Value GraphBuilder::avg_pool2d(const std::string& name, Value x, const AvgPool2d& options) {
  return pool(name, x, options);
}

Value GraphBuilder::max_pool2d(const std::string& name, Value x, const MaxPool2d& options) {
  return pool(name, x, options);
}

Value GraphBuilder::add(std::string name, Value a, Value b) {
  if (shape(a) != shape(b)) refuse(name, Add{}, "needs two values of one shape", {a, b});
  return append(std::move(name), Add{}, {a, b}, Shape(shape(a)));
}

Value GraphBuilder::scale(std::string name, Value x, Value factors) {
  const Shape& in = image_shape(name, Scale{}, x);
  if (shape(factors) != Shape{in[0], 1, 1})
    refuse(name, Scale{}, "needs an image (C, H, W) and factors (C, 1, 1)", {x, factors});
  return append(std::move(name), Scale{}, {x, factors}, Shape(in));
}

Value GraphBuilder::stochastic_depth(std::string name, Value x, const StochasticDepth& options) {
  if (options.probability < 0 || options.probability >= 1)
    refuse(name, options, "needs a probability in [0, 1)", {x});
  return append(std::move(name), options, {x}, Shape(shape(x)));
}

Value GraphBuilder::dropout(std::string name, Value x, const Dropout& options) {
  if (options.probability < 0 || options.probability >= 1) {
    refuse(name, options, "needs a probability in [0, 1)", {x});
  }
  return append(std::move(name), options, {x}, Shape(shape(x)));
}

Value GraphBuilder::adaptive_avg_pool2d(std::string name, Value x,
                                        const AdaptiveAvgPool2d& options) {
  const Shape in = image_shape(name, options, x);
  if (!positive(options.size)) refuse(name, options, "needs a size above 0", {x});
  return append(std::move(name), options, {x}, {in[0], options.size.height, options.size.width});
}

Value GraphBuilder::flatten(std::string name, Value x) {
  return append(std::move(name), Flatten{}, {x}, {num_values(shape(x))});
}

Value GraphBuilder::linear(std::string name, Value x, const Linear& options) {
  if (shape(x).size() != 1) refuse(name, options, "needs features (F); flatten first", {x});
  if (options.features <= 0) refuse(name, options, "needs features above 0", {x});
  const std::int64_t in = shape(x)[0];
  const Value value = append(std::move(name), options, {x}, {options.features});
  const std::int64_t fan = options.init == Init::kUniformOut ? options.features : in;
  declare_weights(value, {.shape = {options.features, in},
                          .init = {options.init, fan},
                          .bias = options.bias,
                          .bias_init = options.bias_init,
                          .shared = options.shared});
  return value;
}

Value GraphBuilder::custom(std::string name, std::shared_ptr<const CustomLayer> layer,
                           const std::vector<Value>& inputs) {
  require(layer != nullptr, "the layer " + name + " is null");
  std::vector<Shape> shapes;
  for (const Value input : inputs) shapes.push_back(shape(input));
  const auto result = [&] {
    try {
      return layer->shape(shapes);
    } catch (const Error& error) {
      refuse(name, Custom{layer}, error.message(), inputs);
    }
  }();
  const auto has_values = [](const Shape& of) {
    return std::ranges::all_of(of, [](std::int64_t side) { return side > 0; });
  };
  if (!has_values(result)) refuse(name, Custom{layer}, "has a result of no size", inputs);
  const Value value = append(std::move(name), Custom{layer}, inputs, result);
  Node& node = nodes_[value.node];
  const auto own = [&](const std::string& part, std::optional<CustomParameter> parameter) {
    if (!parameter) return kNoParameter;
    if (!has_values(parameter->shape))
      refuse(node.name, Custom{layer}, "has a parameter of no size", inputs);
    return declare({node.name + part,
                    std::move(parameter->shape),
                    parameter->decay,
                    {parameter->init, parameter->fan, parameter->value},
                    {},
                    parameter->bounds});
  };
  node.weight = own(".weight", layer->weight(shapes));
  node.bias = own(".bias", layer->bias(shapes));
  return value;
}

void GraphBuilder::output(std::string name, Value x) { outputs_.push_back({std::move(name), x}); }

Graph GraphBuilder::build() {
  if (inputs_.empty() || outputs_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a model needs an input and an output");
  }
  Graph graph;
  const std::size_t last = parameters_.size() - 1;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const std::size_t at =
        graph.parameters_.add(parameters_[i].name, parameters_[i].shape, parameters_[i].decay);
    if (const auto& grid = parameters_[i].grid)
      graph.parameters_.set_grid(at, grid->height, grid->width);
    if (const auto& bounds = parameters_[i].bounds) graph.parameters_.set_bounds(at, *bounds);
    graph.init_.push_back(parameters_[i].init);
  }
  for (Declared& entry : buffers_) graph.buffers_.add(entry.name, entry.shape, entry.decay);
  for (Node& node : nodes_) {
    if (node.weight != kNoParameter) node.weight = last - node.weight;
    if (node.bias != kNoParameter) node.bias = last - node.bias;
  }
  graph.nodes_ = std::move(nodes_);
  graph.name_shared();
  graph.inputs_ = std::move(inputs_);
  graph.outputs_ = std::move(outputs_);
  *this = GraphBuilder();
  return graph;
}

}  // namespace millrace::trainer::nn
