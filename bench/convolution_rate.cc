#include "bench/convolution_rate.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bench/cpu_clock.h"
#include "trainer/nn/plan.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::bench {
namespace {

namespace ops = trainer::ops;
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
    const ops::Operands half{any({batch_, in}), any({out, in}), {}, any({batch_, out})};
    const ops::Operands gradient{half.x, any_float({out, in}), {}, half.y};
    const auto forward = ops::inner_product(context_, half);
    return time_forward(forward) + time_data(ops::inner_product_data(context_, half, forward)) +
           time_weights(ops::inner_product_weights(context_, gradient, forward));
  }

 private:
  memory::desc any(const memory::dims& dims) const {
    return {dims, type_, memory::format_tag::any};
  }
  static memory::desc any_float(const memory::dims& dims) {
    return {dims, memory::data_type::f32, memory::format_tag::any};
  }

  memory make(const memory::desc& desc) const {
    memory made(desc, context_.engine);
    if (desc.get_size() > 0) std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
  }

  double time(const dnnl::primitive& primitive, const Arguments& arguments) {
    double best = 1e9;
    for (int i = 0; i < 6; ++i) {
      const double start = now();
      primitive.execute(context_.stream, arguments);
      context_.stream.wait();
      best = std::min(best, now() - start);
    }
    return best;
  }

  template <typename Desc>
  double time_forward(const Desc& desc) {
    return time(dnnl::primitive(desc.get()), {{DNNL_ARG_SRC, make(desc.src_desc())},
                                              {DNNL_ARG_WEIGHTS, make(desc.weights_desc())},
                                              {DNNL_ARG_DST, make(desc.dst_desc())},
                                              {DNNL_ARG_SCRATCHPAD, make(desc.scratchpad_desc())}});
  }

  template <typename Desc>
  double time_data(const Desc& desc) {
    return time(dnnl::primitive(desc.get()), {{DNNL_ARG_DIFF_SRC, make(desc.diff_src_desc())},
                                              {DNNL_ARG_WEIGHTS, make(desc.weights_desc())},
                                              {DNNL_ARG_DIFF_DST, make(desc.diff_dst_desc())},
                                              {DNNL_ARG_SCRATCHPAD, make(desc.scratchpad_desc())}});
  }

  template <typename Desc>
  double time_weights(const Desc& desc) {
    return time(dnnl::primitive(desc.get()),
                {{DNNL_ARG_SRC, make(desc.src_desc())},
                 {DNNL_ARG_DIFF_WEIGHTS, make(desc.diff_weights_desc())},
                 {DNNL_ARG_DIFF_DST, make(desc.diff_dst_desc())},
                 {DNNL_ARG_SCRATCHPAD, make(desc.scratchpad_desc())}});
  }

  double measure_conv2d(const trainer::nn::Conv2d& layer, const trainer::nn::Shape& in,
                        const trainer::nn::Shape& out, bool to_data) {
    memory::dims shape = {out[0], in[0] / layer.groups, layer.kernel.height, layer.kernel.width};
    if (layer.groups > 1) {
      shape[0] /= layer.groups;
      shape.insert(shape.begin(), layer.groups);
    }
    const ops::Window window{.strides = {layer.stride.height, layer.stride.width},
                             .dilates = {layer.dilation.height - 1, layer.dilation.width - 1},
                             .before = {layer.padding.height, layer.padding.width},
                             .after = {layer.padding.height, layer.padding.width}};
    const ops::Operands values{
        any({batch_, in[0], in[1], in[2]}), any(shape), {}, any({batch_, out[0], out[1], out[2]})};
    const ops::Operands gradient{values.x, any_float(shape), {}, values.y};
    const auto forward = ops::convolution(context_, values, window);
    const double seconds = time_forward(forward) + time_weights(ops::convolution_weights(
                                                       context_, gradient, window, forward));
    if (!to_data) return seconds;
    return seconds + time_data(ops::convolution_data(context_, values, window, forward));
  }

  ops::Context context_;
  std::int64_t batch_;
  memory::data_type type_;
  std::map<Key, double> known_;
};

}  // namespace

double convolution_seconds(const trainer::nn::Graph& graph, std::int64_t batch, bool half) {
  Timer timer(batch, half && trainer::nn::has_native_bfloat16());  // else steps compute in float32
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
