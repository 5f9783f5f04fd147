#include "bench/convolution_rate.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bench/cpu_clock.h"

namespace millrace::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;
using Key = std::vector<std::int64_t>;

class Timer {
 public:
  Timer(std::int64_t batch, bool half)
      : batch_(batch), type_(half ? memory::data_type::bf16 : memory::data_type::f32) {}

  // Layers of the same geometry are measured once.
  double conv2d(const trainer::nn::Conv2d& layer, const trainer::nn::Shape& in,
                const trainer::nn::Shape& out, bool to_data) {
    const Key key = {in[0],
                     in[1],
                     in[2],
                     out[0],
                     out[1],
                     out[2],
                     layer.kernel.height,
                     layer.kernel.width,
                     layer.groups,
                     layer.dilation.height,
                     to_data ? 1 : 0};
    const auto [at, fresh] = known_.try_emplace(key, 0.0);
    if (fresh) at->second = measure_conv2d(layer, in, out, to_data);
    return at->second;
  }

  double linear(std::int64_t in, std::int64_t out) {
    const memory::desc x = any({batch_, in});
    const memory::desc w = any({out, in});
    const memory::desc y = any({batch_, out});
    const dnnl::inner_product_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, x, w, y}, engine_);
    const dnnl::inner_product_backward_data::primitive_desc data({x, w, y}, engine_, forward);
    const dnnl::inner_product_backward_weights::primitive_desc weights({x, any_float({out, in}), y},
                                                                       engine_, forward);
    return time(dnnl::inner_product_forward(forward),
                {{DNNL_ARG_SRC, make(forward.src_desc())},
                 {DNNL_ARG_WEIGHTS, make(forward.weights_desc())},
                 {DNNL_ARG_DST, make(forward.dst_desc())}}) +
           time(dnnl::inner_product_backward_data(data),
                {{DNNL_ARG_DIFF_SRC, make(data.diff_src_desc())},
                 {DNNL_ARG_WEIGHTS, make(data.weights_desc())},
                 {DNNL_ARG_DIFF_DST, make(data.diff_dst_desc())}}) +
           time(dnnl::inner_product_backward_weights(weights),
                {{DNNL_ARG_SRC, make(weights.src_desc())},
                 {DNNL_ARG_DIFF_WEIGHTS, make(weights.diff_weights_desc())},
                 {DNNL_ARG_DIFF_DST, make(weights.diff_dst_desc())}});
  }

 private:
  memory::desc any(const memory::dims& dims) const {
    return {dims, type_, memory::format_tag::any};
  }
  static memory::desc any_float(const memory::dims& dims) {
    return {dims, memory::data_type::f32, memory::format_tag::any};
  }

  memory make(const memory::desc& desc) const {
    memory made(desc, engine_);
    std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
  }

  double time(const dnnl::primitive& primitive, const Arguments& arguments) {
    double best = 1e9;
    for (int i = 0; i < 6; ++i) {
      const double start = now();
      primitive.execute(stream_, arguments);
      stream_.wait();
      best = std::min(best, now() - start);
    }
    return best;
  }

  double measure_conv2d(const trainer::nn::Conv2d& layer, const trainer::nn::Shape& in,
                        const trainer::nn::Shape& out, bool to_data) {
    const memory::desc x = any({batch_, in[0], in[1], in[2]});
    const memory::desc y = any({batch_, out[0], out[1], out[2]});
    memory::dims shape = {out[0], in[0] / layer.groups, layer.kernel.height, layer.kernel.width};
    if (layer.groups > 1) {
      shape[0] /= layer.groups;
      shape.insert(shape.begin(), layer.groups);
    }
    const memory::dims strides = {layer.stride.height, layer.stride.width};
    const memory::dims dilates = {layer.dilation.height - 1, layer.dilation.width - 1};
    const memory::dims pad = {layer.padding.height, layer.padding.width};
    const auto direct = algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, x, any(shape), y, strides, dilates, pad, pad},
        engine_);
    double seconds =
        time(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, make(forward.src_desc())},
                                                  {DNNL_ARG_WEIGHTS, make(forward.weights_desc())},
                                                  {DNNL_ARG_DST, make(forward.dst_desc())}});
    const dnnl::convolution_backward_weights::primitive_desc weights(
        {direct, x, any_float(shape), y, strides, dilates, pad, pad}, engine_, forward);
    seconds += time(dnnl::convolution_backward_weights(weights),
                    {{DNNL_ARG_SRC, make(weights.src_desc())},
                     {DNNL_ARG_DIFF_WEIGHTS, make(weights.diff_weights_desc())},
                     {DNNL_ARG_DIFF_DST, make(weights.diff_dst_desc())}});
    if (!to_data) return seconds;
    const dnnl::convolution_backward_data::primitive_desc data(
        {direct, x, any(shape), y, strides, dilates, pad, pad}, engine_, forward);
    return seconds + time(dnnl::convolution_backward_data(data),
                          {{DNNL_ARG_DIFF_SRC, make(data.diff_src_desc())},
                           {DNNL_ARG_WEIGHTS, make(data.weights_desc())},
                           {DNNL_ARG_DIFF_DST, make(data.diff_dst_desc())}});
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::int64_t batch_;
  memory::data_type type_;
  std::map<Key, double> known_;
};

}  // namespace

double convolution_seconds(const trainer::nn::Graph& graph, std::int64_t batch, bool half) {
  Timer timer(batch, half);
  double seconds = 0;
  for (const trainer::nn::Node& node : graph.nodes()) {
    if (node.inputs.empty()) continue;
    const trainer::nn::Node& input = graph.node(node.inputs[0]);
    if (const auto* conv = std::get_if<trainer::nn::Conv2d>(&node.layer)) {
      seconds += timer.conv2d(*conv, input.shape, node.shape, !input.inputs.empty());
    } else if (std::holds_alternative<trainer::nn::Linear>(node.layer)) {
      seconds += timer.linear(input.shape[0], node.shape[0]);
    }
  }
  return seconds;
}

}  // namespace millrace::bench
