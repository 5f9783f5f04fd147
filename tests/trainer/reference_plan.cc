#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <variant>
#include <vector>

#include "decode/array.h"
#include "io/base/error.h"
#include "tests/trainer/reference_backend.h"

namespace millrace::testing {
namespace {

using namespace trainer::nn;
using Values = std::vector<double>;

/// (N, C, H, W); features are images of one pixel.
struct Dims {
  std::int64_t n = 1, c = 1, h = 1, w = 1;

  Dims(std::int64_t batch, const Shape& shape) : n(batch), c(shape[0]) {
    if (shape.size() == 3) {
      h = shape[1];
      w = shape[2];
    }
  }
  std::size_t at(std::int64_t i, std::int64_t j, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>(((i * c + j) * h + y) * w + x);
  }
  std::size_t size() const { return static_cast<std::size_t>(n * c * h * w); }
};

/// One node's value and gradient, and what its backward pass needs.
struct Cell {
  Values value, gradient;
  Values mean, inverse;            // batch norm
  std::vector<std::size_t> taken;  // max-pool: where each value comes from
};

class ReferencePlan final : public Plan {
 public:
  ReferencePlan(const Graph& graph, const PlanOptions& options, const ReferenceMemory& memory)
      : graph_(graph), options_(options), memory_(memory), cells_(graph.nodes().size()) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      check(graph.nodes()[i]);
      cells_[i].value.resize(dims(i).size());
    }
    for (const GraphOutput& output : graph.outputs()) {
      outputs_.emplace_back(cells_[output.value.node].value.size());
      gradients_.emplace_back(outputs_.back().size());
    }
  }

  void forward(std::span<const std::span<const std::byte>> inputs, Mode mode,
               const ParametersNeeded& needed) override {
    if (needed) needed(0);
    if (inputs.size() != graph_.inputs().size()) refuse("a wrong number of inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) take(inputs[i], graph_.inputs()[i].node);
    trains_ = mode == Mode::kTrain;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      std::visit([&](const auto& layer) { run(layer, i); }, graph_.nodes()[i].layer);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      std::ranges::copy(cells_[graph_.outputs()[i].value.node].value, outputs_[i].begin());
    }
  }
  std::size_t num_outputs() const override { return outputs_.size(); }
  OutputView output(std::size_t index) override { return view(index, outputs_); }
  OutputView output_gradient(std::size_t index) override { return view(index, gradients_); }
  void backward(const std::function<void(std::size_t)>& ready) override {
    std::ranges::fill(memory_.gradients, 0.0);
    for (Cell& cell : cells_) cell.gradient.assign(cell.value.size(), 0.0);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      Values& into = cells_[graph_.outputs()[i].value.node].gradient;
      for (std::size_t k = 0; k < into.size(); ++k)
        into[k] += static_cast<double>(gradients_[i][k]);
    }
    for (std::size_t i = cells_.size(); i-- > 0;) {
      std::visit([&](const auto& layer) { back(layer, i); }, graph_.nodes()[i].layer);
    }
    if (ready) ready(memory_.gradients.size());
  }
  void parameters_changed() override {}
  void set_random_key(const trainer::nn::BatchKey&) override {}
  std::size_t activation_bytes() const override {
    std::size_t bytes = 0;
    for (const Cell& cell : cells_) bytes += cell.value.size() * sizeof(double);
    return bytes;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, what);
  }

  static void check(const Node& node) {
    bool known =
        std::holds_alternative<Input>(node.layer) ||
        std::holds_alternative<BatchNorm>(node.layer) || std::holds_alternative<Relu>(node.layer) ||
        std::holds_alternative<Add>(node.layer) || std::holds_alternative<MaxPool2d>(node.layer) ||
        std::holds_alternative<Flatten>(node.layer) || std::holds_alternative<Linear>(node.layer);
    if (const auto* conv = std::get_if<Conv2d>(&node.layer))
      known = conv->groups == 1 && conv->dilation.height == 1 && conv->dilation.width == 1;
    if (const auto* pool = std::get_if<AdaptiveAvgPool2d>(&node.layer))
      known = pool->size.height == 1 && pool->size.width == 1;
    if (known) return;
    throw Error(ErrorCode::kUnsupported,
                "the reference has no " + std::string(layer_name(node.layer)) + " as " + node.name);
  }

  Dims dims(std::size_t node) const { return {options_.batch_size, graph_.nodes()[node].shape}; }
  Cell& input_of(std::size_t node, std::size_t index = 0) {
    return cells_[graph_.nodes()[node].inputs[index].node];
  }
  Dims input_dims(std::size_t node) const { return dims(graph_.nodes()[node].inputs[0].node); }
  OutputView view(std::size_t index, std::vector<std::vector<float>>& of) {
    Shape shape = graph_.node(graph_.outputs()[index].value).shape;
    shape.insert(shape.begin(), options_.batch_size);
    return {shape, of[index]};
  }

  std::size_t offset(std::size_t parameter) const {
    return graph_.parameters().entries()[parameter].offset;
  }
  double weight(std::size_t parameter, std::size_t at) const {
    return memory_.parameters[offset(parameter) + at];
  }
  double bias(std::size_t node, std::int64_t c) const {
    const std::size_t index = graph_.nodes()[node].bias;
    return index == kNoParameter ? 0.0 : weight(index, static_cast<std::size_t>(c));
  }
  double& gradient(std::size_t parameter, std::size_t at) {
    return memory_.gradients[offset(parameter) + at];
  }
  void add_bias_gradient(std::size_t node, std::int64_t c, double g) {
    const std::size_t index = graph_.nodes()[node].bias;
    if (index != kNoParameter) gradient(index, static_cast<std::size_t>(c)) += g;
  }
  double& statistic(std::size_t node, std::size_t which, std::int64_t c) {
    const std::size_t index = graph_.nodes()[node].buffers + which;
    return memory_.buffers[graph_.buffers().entries()[index].offset + static_cast<std::size_t>(c)];
  }

  /// From (N, H, W, C).
  void take(std::span<const std::byte> bytes, std::size_t node) {
    const Dims d = dims(node);
    const bool half = options_.input_dtype == decode::DType::kBFloat16;
    if (bytes.size() != d.size() * (half ? 2 : 4)) refuse("an input of another size");
    for (std::int64_t i = 0; i < d.n; ++i)
      for (std::int64_t c = 0; c < d.c; ++c)
        for (std::int64_t y = 0; y < d.h; ++y)
          for (std::int64_t x = 0; x < d.w; ++x) {
            const auto from = static_cast<std::size_t>(((i * d.h + y) * d.w + x) * d.c + c);
            cells_[node].value[d.at(i, c, y, x)] = number(bytes, from, half);
          }
  }
  static double number(std::span<const std::byte> bytes, std::size_t at, bool half) {
    float value = 0.0F;
    if (half) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * at, 2);
      value = decode::from_bfloat16(bits);
    } else {
      std::memcpy(&value, bytes.data() + 4 * at, 4);
    }
    return static_cast<double>(value);
  }

  /// One position of a window over a node's input: of output (image, channel, y, x), kernel element
  /// (ky, kx) and input row and column.
  struct Tap {
    std::int64_t image, channel, y, x, ky, kx, row, column;
  };
  /// Calls each(tap) for every position that lies in the input. `Layer` has kernel, stride,
  /// padding.
  template <typename Layer, typename Each>
  void for_each_tap(const Layer& layer, std::size_t node, const Each& each) const {
    const Dims out = dims(node);
    const Dims in = input_dims(node);
    for (std::int64_t i = 0; i < out.n; ++i)
      for (std::int64_t c = 0; c < out.c; ++c)
        for (std::int64_t y = 0; y < out.h; ++y)
          for (std::int64_t x = 0; x < out.w; ++x)
            for (std::int64_t ky = 0; ky < layer.kernel.height; ++ky)
              for (std::int64_t kx = 0; kx < layer.kernel.width; ++kx) {
                const std::int64_t row = y * layer.stride.height + ky - layer.padding.height;
                const std::int64_t column = x * layer.stride.width + kx - layer.padding.width;
                if (row < 0 || row >= in.h || column < 0 || column >= in.w) continue;
                each(Tap{i, c, y, x, ky, kx, row, column});
              }
  }
  /// Calls each(out, in, weight), the indices of the factors, for every product of a convolution.
  template <typename Each>
  void for_each_product(const Conv2d& conv, std::size_t node, const Each& each) const {
    const Dims out = dims(node);
    const Dims in = input_dims(node);
    for_each_tap(conv, node, [&](const Tap& tap) {
      for (std::int64_t c = 0; c < in.c; ++c) {
        const std::int64_t kernel = (tap.channel * in.c + c) * conv.kernel.height + tap.ky;
        each(out.at(tap.image, tap.channel, tap.y, tap.x), in.at(tap.image, c, tap.row, tap.column),
             static_cast<std::size_t>(kernel * conv.kernel.width + tap.kx));
      }
    });
  }
  /// Calls each(channel, place) for every value of a node.
  template <typename Each>
  void for_each_value(std::size_t node, const Each& each) const {
    const Dims d = dims(node);
    const auto pixels = static_cast<std::size_t>(d.h * d.w);
    for (std::size_t k = 0; k < d.size(); ++k)
      each(static_cast<std::int64_t>(k / pixels % static_cast<std::size_t>(d.c)), k);
  }

  template <typename Other>
  void run(const Other&, std::size_t) {}  // an input, or a layer that check() has refused
  template <typename Other>
  void back(const Other&, std::size_t) {}

  void run(const Conv2d& conv, std::size_t node) {
    Cell& out = cells_[node];
    const Values& in = input_of(node).value;
    const std::size_t weights = graph_.nodes()[node].weight;
    for_each_value(node, [&](std::int64_t c, std::size_t k) { out.value[k] = bias(node, c); });
    for_each_product(conv, node, [&](std::size_t o, std::size_t i, std::size_t w) {
      out.value[o] += in[i] * weight(weights, w);
    });
  }
  void back(const Conv2d& conv, std::size_t node) {
    Cell& out = cells_[node];
    Cell& in = input_of(node);
    const std::size_t weights = graph_.nodes()[node].weight;
    for_each_value(
        node, [&](std::int64_t c, std::size_t k) { add_bias_gradient(node, c, out.gradient[k]); });
    for_each_product(conv, node, [&](std::size_t o, std::size_t i, std::size_t w) {
      in.gradient[i] += out.gradient[o] * weight(weights, w);
      gradient(weights, w) += out.gradient[o] * in.value[i];
    });
  }

  /// As a convolution whose kernel is the whole input.
  static Conv2d as_convolution(const Dims& in) { return {.kernel = {in.h, in.w}}; }
  void run(const Linear&, std::size_t node) { run(as_convolution(input_dims(node)), node); }
  void back(const Linear&, std::size_t node) { back(as_convolution(input_dims(node)), node); }

  void run(const BatchNorm& norm, std::size_t node) {
    const Dims d = dims(node);
    const Values& in = input_of(node).value;
    Cell& out = cells_[node];
    const double count = static_cast<double>(d.n * d.h * d.w);
    out.mean.assign(static_cast<std::size_t>(d.c), 0.0);
    out.inverse = out.mean;
    for_each_value(node, [&](std::int64_t c, std::size_t k) { out.mean[at(c)] += in[k] / count; });
    Values variance(out.mean.size());
    for_each_value(node, [&](std::int64_t c, std::size_t k) {
      variance[at(c)] += std::pow(in[k] - out.mean[at(c)], 2) / count;
    });
    for (std::int64_t c = 0; c < d.c; ++c) {
      double& mean = statistic(node, 0, c);
      double& running = statistic(node, 1, c);
      if (trains_) {
        const auto rate = static_cast<double>(norm.momentum);
        mean += rate * (out.mean[at(c)] - mean);
        running += rate * (variance[at(c)] * count / std::max(1.0, count - 1.0) - running);
      } else {
        out.mean[at(c)] = mean;
        variance[at(c)] = running;
      }
      out.inverse[at(c)] = 1.0 / std::sqrt(variance[at(c)] + static_cast<double>(norm.epsilon));
    }
    if (trains_) statistic(node, 2, 0) += 1.0;
    for_each_value(node, [&](std::int64_t c, std::size_t k) {
      out.value[k] = (in[k] - out.mean[at(c)]) * out.inverse[at(c)] *
                         weight(graph_.nodes()[node].weight, at(c)) +
                     bias(node, c);
    });
  }
  void back(const BatchNorm&, std::size_t node) {
    const Dims d = dims(node);
    Cell& out = cells_[node];
    Cell& in = input_of(node);
    const double count = static_cast<double>(d.n * d.h * d.w);
    const std::size_t scale = graph_.nodes()[node].weight;
    Values sum(out.mean.size());
    Values product(out.mean.size());
    const auto normal = [&](std::int64_t c, std::size_t k) {
      return (in.value[k] - out.mean[at(c)]) * out.inverse[at(c)];
    };
    for_each_value(node, [&](std::int64_t c, std::size_t k) {
      sum[at(c)] += out.gradient[k];
      product[at(c)] += out.gradient[k] * normal(c, k);
    });
    for_each_value(node, [&](std::int64_t c, std::size_t k) {
      in.gradient[k] +=
          weight(scale, at(c)) * out.inverse[at(c)] *
          (out.gradient[k] - sum[at(c)] / count - normal(c, k) * product[at(c)] / count);
    });
    for (std::int64_t c = 0; c < d.c; ++c) {
      gradient(scale, at(c)) += product[at(c)];
      add_bias_gradient(node, c, sum[at(c)]);
    }
  }
  static std::size_t at(std::int64_t c) { return static_cast<std::size_t>(c); }

  void run(const Relu&, std::size_t node) {
    const Values& in = input_of(node).value;
    for (std::size_t k = 0; k < in.size(); ++k) cells_[node].value[k] = std::max(0.0, in[k]);
  }
  void back(const Relu&, std::size_t node) {
    Cell& in = input_of(node);
    for (std::size_t k = 0; k < in.value.size(); ++k)
      if (in.value[k] > 0.0) in.gradient[k] += cells_[node].gradient[k];
  }

  void run(const Add&, std::size_t node) {
    for (std::size_t k = 0; k < cells_[node].value.size(); ++k)
      cells_[node].value[k] = input_of(node, 0).value[k] + input_of(node, 1).value[k];
  }
  void back(const Add&, std::size_t node) {
    for (std::size_t part = 0; part < 2; ++part)
      for (std::size_t k = 0; k < cells_[node].value.size(); ++k)
        input_of(node, part).gradient[k] += cells_[node].gradient[k];
  }

  void run(const MaxPool2d& pool, std::size_t node) {
    const Dims out = dims(node);
    const Dims in = input_dims(node);
    const Values& from = input_of(node).value;
    Cell& cell = cells_[node];
    cell.taken.assign(cell.value.size(), 0);
    std::ranges::fill(cell.value, -std::numeric_limits<double>::infinity());
    for_each_tap(pool, node, [&](const Tap& tap) {
      const std::size_t to = out.at(tap.image, tap.channel, tap.y, tap.x);
      const std::size_t place = in.at(tap.image, tap.channel, tap.row, tap.column);
      if (from[place] <= cell.value[to]) return;
      cell.value[to] = from[place];
      cell.taken[to] = place;
    });
  }
  void back(const MaxPool2d&, std::size_t node) {
    const Cell& cell = cells_[node];
    for (std::size_t k = 0; k < cell.taken.size(); ++k)
      input_of(node).gradient[cell.taken[k]] += cell.gradient[k];
  }

  void run(const AdaptiveAvgPool2d&, std::size_t node) {
    const Dims in = input_dims(node);
    const auto pixels = static_cast<std::size_t>(in.h * in.w);
    std::ranges::fill(cells_[node].value, 0.0);
    for (std::size_t k = 0; k < in.size(); ++k)
      cells_[node].value[k / pixels] += input_of(node).value[k] / static_cast<double>(pixels);
  }
  void back(const AdaptiveAvgPool2d&, std::size_t node) {
    const Dims in = input_dims(node);
    const auto pixels = static_cast<std::size_t>(in.h * in.w);
    for (std::size_t k = 0; k < in.size(); ++k)
      input_of(node).gradient[k] += cells_[node].gradient[k / pixels] / static_cast<double>(pixels);
  }

  void run(const Flatten&, std::size_t node) { cells_[node].value = input_of(node).value; }
  void back(const Flatten&, std::size_t node) {
    for (std::size_t k = 0; k < cells_[node].value.size(); ++k)
      input_of(node).gradient[k] += cells_[node].gradient[k];
  }

  const Graph& graph_;
  PlanOptions options_;
  ReferenceMemory memory_;
  std::vector<Cell> cells_;  // one per node
  std::vector<std::vector<float>> outputs_, gradients_;
  bool trains_ = false;
};

}  // namespace

std::unique_ptr<Plan> compile_reference(const Graph& graph, const PlanOptions& options,
                                        const ReferenceMemory& memory) {
  const std::size_t size = graph.parameters().padded_size();
  const bool fits = options.batch_size > 0 && memory.parameters.size() == size &&
                    (memory.gradients.empty() || memory.gradients.size() == size) &&
                    memory.buffers.size() == graph.buffers().padded_size();
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, "the flat buffers do not fit the model's tables");
  }
  return std::make_unique<ReferencePlan>(graph, options, memory);
}

}  // namespace millrace::testing
