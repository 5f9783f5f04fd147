// Graph: a model as a list of layers, and GraphBuilder, which builds one.
//
// A model is a function that builds a graph; nothing is computed or allocated until the graph is
// compiled to a Plan. The builder infers every shape at once and throws, naming the layer and the
// shapes, if they do not fit.
//
//   GraphBuilder builder;
//   Value x = builder.input("image", {3, 32, 32});
//   x = builder.conv2d("conv1", x, {.channels = 16, .kernel = 3, .padding = 1});
//   x = builder.relu("relu1", x);
//   x = builder.linear("fc", builder.flatten("flatten", x), {.features = 10});
//   builder.output("logits", x);
//   const Graph graph = builder.build();
//
// Parameters are named "<layer>.weight", "<layer>.bias"; with torchvision's layer names they are
// torchvision's. Their table runs from the last layer to the first (trainer/parameters.h).
//
// Threads: a Graph is immutable; a builder is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/rng.h"
#include "trainer/nn/layers.h"
#include "trainer/parameters.h"

namespace millrace::trainer::nn {

/// A node's output, as a handle.
struct Value {
  std::size_t node = 0;
};

/// Of start values.
inline constexpr Purpose kInitialise{7};

/// The index for "no parameter".
inline constexpr std::size_t kNoParameter = static_cast<std::size_t>(-1);

struct Node {
  std::string name;
  Layer layer;
  std::vector<Value> inputs;
  Shape shape;  ///< of the output, without the batch
  /// Indices into Graph::parameters(), weight then bias; kNoParameter if the layer has none.
  std::size_t weight = kNoParameter;
  std::size_t bias = kNoParameter;
  /// Index of the first buffer (running_mean) in Graph::buffers().
  std::size_t buffers = kNoParameter;
};

/// The distribution of one parameter's start values: see initialise().
struct InitSpec {
  Init kind = Init::kZeros;
  std::int64_t fan = 1;
  float value = 0.0F;  ///< kConstant's
};

struct GraphOutput {
  std::string name;
  Value value;
};

struct Tie;  // trainer/nn/tie.h

/// Of a layer's own: "layer1.0.conv1.weight" of "weight".
std::string parameter_name(const Node& node, std::string_view part);

class Graph {
 public:
  /// In an order in which every node follows its inputs.
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const Node& node(Value value) const { return nodes_[value.node]; }

  const ParameterTable& parameters() const { return parameters_; }
  /// Batch norm's running statistics.
  const ParameterTable& buffers() const { return buffers_; }

  /// Fills the flat buffers with start values of PyTorch's distributions, from `seed` alone: a
  /// parameter's values depend on its place in the model and on nothing else.
  /// Requires: the spans have parameters().padded_size() and buffers().padded_size() floats.
  void initialise(std::uint64_t seed, std::span<float> parameters, std::span<float> buffers) const;

 private:
  friend class GraphBuilder;
  friend Graph tie_weights(const Graph& graph, const Tie& tie);
  void name_shared();

  std::vector<Node> nodes_;
  std::vector<Value> inputs_;
  std::vector<GraphOutput> outputs_;
  ParameterTable parameters_;
  ParameterTable buffers_;
  std::vector<InitSpec> init_;  // one per parameter
};

/// Every member that adds a layer throws InvalidArgument, naming the layer and the shapes, for
/// inputs that do not fit and for a name in use.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Continues `graph`: its values are this builder's, its inputs stay, and its outputs are to be
  /// named again.
  explicit GraphBuilder(const Graph& graph);

  /// `shape` without the batch: (C, H, W) or (F).
  Value input(std::string name, Shape shape);
  Value conv2d(std::string name, Value x, const Conv2d& options);
  Value batch_norm(std::string name, Value x, const BatchNorm& options = {});
  Value layer_norm(std::string name, Value x, const LayerNorm& options = {});
  Value channel_scale(std::string name, Value x, const ChannelScale& options = {});
  Value tokens(std::string name, Value x, const Tokens& options = {});
  Value attention(std::string name, Value x, const Attention& options,
                  std::optional<Value> mask = {});
  Value take_token(std::string name, Value x, const TakeToken& options = {});
  Value conv_transpose2d(std::string name, Value x, const ConvTranspose2d& options);
  Value relu(std::string name, Value x);
  Value leaky_relu(std::string name, Value x, float slope = 0.01F);
  Value sigmoid(std::string name, Value x);
  Value gelu(std::string name, Value x);
  Value silu(std::string name, Value x);
  Value hard_swish(std::string name, Value x);
  Value hard_sigmoid(std::string name, Value x);
  Value softmax(std::string name, Value x);
  Value concat(std::string name, const std::vector<Value>& parts);
  Value reshape(std::string name, Value x, const Shape& shape);
  Value upsample(std::string name, Value x, const Upsample& options = {});
  Value avg_pool2d(const std::string& name, Value x, const AvgPool2d& options = {});
  Value add(std::string name, Value a, Value b);
  Value scale(std::string name, Value x, Value factors);
  Value stochastic_depth(std::string name, Value x, const StochasticDepth& options);
  Value dropout(std::string name, Value x, const Dropout& options = {});
  Value max_pool2d(const std::string& name, Value x, const MaxPool2d& options = {});
  Value adaptive_avg_pool2d(std::string name, Value x, const AdaptiveAvgPool2d& options = {});
  Value flatten(std::string name, Value x);
  Value linear(std::string name, Value x, const Linear& options);
  /// Throws: what the layer's shape() throws, with the layer's name.
  Value custom(std::string name, std::shared_ptr<const CustomLayer> layer,
               const std::vector<Value>& inputs);
  void output(std::string name, Value x);

  /// The parameters of the layer with output `x`, for another layer of the same shapes to share.
  /// Throws: InvalidArgument for a layer without parameters.
  SharedWeights weights_of(Value x) const;

  const Shape& shape(Value x) const { return nodes_[x.node].shape; }

  /// Returns the graph; the builder is empty afterwards. Throws: InvalidArgument without an input
  /// or an output.
  Graph build();

 private:
  struct Declared {
    std::string name;
    Shape shape;
    bool decay = true;
    InitSpec init;
    std::optional<Extent2d> grid = {};  // Parameter::grid_height, grid_width
    std::optional<ParameterBounds> bounds = {};
  };

  template <typename Pool>
  Value pool(const std::string& name, Value x, const Pool& options);
  Value append(std::string name, Layer layer, std::vector<Value> inputs, Shape shape);
  std::size_t declare(Declared parameter);
  /// A layer's own, or shared ones.
  struct Weights {
    Shape shape;
    InitSpec init;
    bool bias = true;
    Init bias_init = Init::kKaimingUniform;
    std::optional<SharedWeights> shared = {};
  };
  void declare_weights(Value at, Weights weights);
  void share_weights(Value at, const Shape& shape, bool bias, const SharedWeights& shared);
  [[noreturn]] void refuse(const std::string& name, const Layer& layer, const std::string& why,
                           const std::vector<Value>& inputs) const;
  const Shape& image_shape(const std::string& name, const Layer& layer, Value x) const;

  std::vector<Node> nodes_;
  std::vector<Value> inputs_;
  std::vector<GraphOutput> outputs_;
  std::vector<Declared> parameters_;
  std::vector<Declared> buffers_;
};

}  // namespace millrace::trainer::nn
