#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

using dnnl::algorithm;
using Attributes = dnnl::primitive_attr;

constexpr auto kTraining = dnnl::prop_kind::forward_training;
constexpr auto kConvolution = algorithm::convolution_direct;
constexpr auto kDeconvolution = algorithm::deconvolution_direct;

#if DNNL_VERSION_MAJOR >= 3
template <typename Primitive, typename... Arguments>
auto describe(const Context& context, const Attributes& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(context.engine, arguments..., attributes);
}

template <typename Primitive, typename Hint, typename... Arguments>
auto describe_back(const Context& context, const Attributes& attributes, const Hint& forward,
                   const Arguments&... arguments) {
  return typename Primitive::primitive_desc(context.engine, arguments..., forward, attributes);
}

void append_relu(dnnl::post_ops& ops) { ops.append_eltwise(algorithm::eltwise_relu, 0.0F, 0.0F); }
#else
template <typename Primitive, typename... Arguments>
auto describe(const Context& context, const Attributes& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            context.engine);
}

template <typename Primitive, typename Hint, typename... Arguments>
auto describe_back(const Context& context, const Attributes& attributes, const Hint& forward,
                   const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            context.engine, forward);
}

void append_relu(dnnl::post_ops& ops) {
  ops.append_eltwise(1.0F, algorithm::eltwise_relu, 0.0F, 0.0F);
}
#endif

Attributes user_scratchpad(bool relu = false) {
  Attributes attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!relu) return attributes;
  dnnl::post_ops ops;
  append_relu(ops);
  attributes.set_post_ops(ops);
  return attributes;
}

}  // namespace

#if DNNL_VERSION_MAJOR >= 3
Dims dims_of(const Desc& desc) { return desc.get_dims(); }
DataType type_of(const Desc& desc) { return desc.get_data_type(); }

// A description cannot be changed, so the name of its order is found by trial.
Desc with_type(const Desc& desc, DataType type) {
  if (type == type_of(desc)) return desc;
  for (const FormatTag tag :
       {FormatTag::aBcd16b, FormatTag::aBcd8b, FormatTag::aBcd4b, FormatTag::acdb}) {
    if (Desc(dims_of(desc), type_of(desc), tag) == desc) return {dims_of(desc), type, tag};
  }
  return {dims_of(desc), type, FormatTag::abcd};
}

Blocking blocking_of(const Desc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return {};
  Blocking blocking{.strides = desc.get_strides(), .blocks = {}};
  const Dims axes = desc.get_inner_idxs();
  const Dims sizes = desc.get_inner_blks();
  for (std::size_t i = 0; i < axes.size(); ++i)
    blocking.blocks.push_back({static_cast<std::size_t>(axes[i]), sizes[i]});
  return blocking;
}
#else
Dims dims_of(const Desc& desc) { return desc.dims(); }
DataType type_of(const Desc& desc) { return desc.data_type(); }

Desc with_type(const Desc& desc, DataType type) {
  Desc copy = desc;
  copy.data.data_type = dnnl::memory::convert_to_c(type);
  return copy;
}

Blocking blocking_of(const Desc& desc) {
  if (desc.data.format_kind != dnnl_blocked) return {};
  const dnnl_blocking_desc_t& given = desc.data.format_desc.blocking;
  Blocking blocking{.strides = {given.strides, given.strides + desc.data.ndims}, .blocks = {}};
  for (int i = 0; i < given.inner_nblks; ++i)
    blocking.blocks.push_back({static_cast<std::size_t>(given.inner_idxs[i]), given.inner_blks[i]});
  return blocking;
}
#endif

std::string implementation_of(const dnnl::primitive& primitive) {
  const char* name = nullptr;
  const dnnl_status_t status =
      dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &name);
  return status == dnnl_success && name != nullptr ? name : "";
}

dnnl::convolution_forward::primitive_desc convolution(const Context& context, const Operands& of,
                                                      const Window& window, bool relu) {
  return describe<dnnl::convolution_forward>(
      context, user_scratchpad(relu), kTraining, kConvolution, of.x, of.weights, of.bias, of.y,
      window.strides, window.dilates, window.before, window.after);
}

dnnl::convolution_backward_weights::primitive_desc convolution_weights(
    const Context& context, const Operands& of, const Window& window,
    const dnnl::convolution_forward::primitive_desc& forward) {
  return describe_back<dnnl::convolution_backward_weights>(
      context, user_scratchpad(), forward, kConvolution, of.x, of.weights, of.bias, of.y,
      window.strides, window.dilates, window.before, window.after);
}

dnnl::convolution_backward_data::primitive_desc convolution_data(
    const Context& context, const Operands& of, const Window& window,
    const dnnl::convolution_forward::primitive_desc& forward) {
  return describe_back<dnnl::convolution_backward_data>(
      context, user_scratchpad(), forward, kConvolution, of.x, of.weights, of.y, window.strides,
      window.dilates, window.before, window.after);
}

dnnl::deconvolution_forward::primitive_desc deconvolution(const Context& context,
                                                          const Operands& of,
                                                          const Window& window) {
  return describe<dnnl::deconvolution_forward>(
      context, user_scratchpad(), kTraining, kDeconvolution, of.x, of.weights, of.bias, of.y,
      window.strides, window.dilates, window.before, window.after);
}

dnnl::deconvolution_backward_weights::primitive_desc deconvolution_weights(
    const Context& context, const Operands& of, const Window& window,
    const dnnl::deconvolution_forward::primitive_desc& forward) {
  return describe_back<dnnl::deconvolution_backward_weights>(
      context, user_scratchpad(), forward, kDeconvolution, of.x, of.weights, of.bias, of.y,
      window.strides, window.dilates, window.before, window.after);
}

dnnl::deconvolution_backward_data::primitive_desc deconvolution_data(
    const Context& context, const Operands& of, const Window& window,
    const dnnl::deconvolution_forward::primitive_desc& forward) {
  return describe_back<dnnl::deconvolution_backward_data>(
      context, user_scratchpad(), forward, kDeconvolution, of.x, of.weights, of.y, window.strides,
      window.dilates, window.before, window.after);
}

dnnl::inner_product_forward::primitive_desc inner_product(const Context& context,
                                                          const Operands& of, bool relu) {
  return describe<dnnl::inner_product_forward>(context, user_scratchpad(relu), kTraining, of.x,
                                               of.weights, of.bias, of.y);
}

dnnl::inner_product_backward_weights::primitive_desc inner_product_weights(
    const Context& context, const Operands& of,
    const dnnl::inner_product_forward::primitive_desc& forward) {
  return describe_back<dnnl::inner_product_backward_weights>(context, user_scratchpad(), forward,
                                                             of.x, of.weights, of.bias, of.y);
}

dnnl::inner_product_backward_data::primitive_desc inner_product_data(
    const Context& context, const Operands& of,
    const dnnl::inner_product_forward::primitive_desc& forward) {
  return describe_back<dnnl::inner_product_backward_data>(context, user_scratchpad(), forward, of.x,
                                                          of.weights, of.y);
}

dnnl::resampling_forward::primitive_desc resampling(const Context& context,
                                                    dnnl::algorithm algorithm, const Desc& x,
                                                    const Desc& y) {
  return describe<dnnl::resampling_forward>(context, user_scratchpad(), kTraining, algorithm, x, y);
}

dnnl::resampling_backward::primitive_desc resampling_back(
    const Context& context, dnnl::algorithm algorithm, const Gradients& of,
    const dnnl::resampling_forward::primitive_desc& forward) {
  return describe_back<dnnl::resampling_backward>(context, user_scratchpad(), forward, algorithm,
                                                  of.dx, of.dy);
}

dnnl::matmul::primitive_desc matrix_product(const Context& context, const Desc& a, const Desc& b,
                                            const Desc& product) {
  return describe<dnnl::matmul>(context, user_scratchpad(), a, b, product);
}

#if DNNL_VERSION_MAJOR >= 3
dnnl::eltwise_forward::primitive_desc eltwise(const Context& context, dnnl::algorithm algorithm,
                                              float alpha, const Desc& x, const Desc& y) {
  return describe<dnnl::eltwise_forward>(context, user_scratchpad(), kTraining, algorithm, x, y,
                                         alpha, 0.0F);
}

dnnl::eltwise_backward::primitive_desc eltwise_back(
    const Context& context, dnnl::algorithm algorithm, float alpha, const Gradients& of,
    const dnnl::eltwise_forward::primitive_desc& forward) {
  return describe_back<dnnl::eltwise_backward>(context, user_scratchpad(), forward, algorithm,
                                               of.dx, of.dy, of.value, alpha, 0.0F);
}

dnnl::softmax_forward::primitive_desc softmax(const Context& context, const Desc& x,
                                              const Desc& y) {
  return describe<dnnl::softmax_forward>(context, user_scratchpad(), kTraining,
                                         algorithm::softmax_accurate, x, y, 1);
}

dnnl::softmax_backward::primitive_desc softmax_back(
    const Context& context, const Gradients& of,
    const dnnl::softmax_forward::primitive_desc& forward) {
  return describe_back<dnnl::softmax_backward>(
      context, user_scratchpad(), forward, algorithm::softmax_accurate, of.dx, of.dy, of.value, 1);
}

dnnl::pooling_forward::primitive_desc pooling(const Context& context, dnnl::algorithm algorithm,
                                              const Desc& x, const Desc& y, const Dims& kernel,
                                              const Window& window) {
  return describe<dnnl::pooling_forward>(context, user_scratchpad(), kTraining, algorithm, x, y,
                                         window.strides, kernel, window.dilates, window.before,
                                         window.after);
}

dnnl::pooling_backward::primitive_desc pooling_back(
    const Context& context, dnnl::algorithm algorithm, const Gradients& of, const Dims& kernel,
    const Window& window, const dnnl::pooling_forward::primitive_desc& forward) {
  return describe_back<dnnl::pooling_backward>(context, user_scratchpad(), forward, algorithm,
                                               of.dx, of.dy, window.strides, kernel, window.dilates,
                                               window.before, window.after);
}
#else
// The result has the input's layout, and an input's gradient that of the input.
dnnl::eltwise_forward::primitive_desc eltwise(const Context& context, dnnl::algorithm algorithm,
                                              float alpha, const Desc& x, const Desc&) {
  return describe<dnnl::eltwise_forward>(context, user_scratchpad(), kTraining, algorithm, x, alpha,
                                         0.0F);
}

dnnl::eltwise_backward::primitive_desc eltwise_back(
    const Context& context, dnnl::algorithm algorithm, float alpha, const Gradients& of,
    const dnnl::eltwise_forward::primitive_desc& forward) {
  return describe_back<dnnl::eltwise_backward>(context, user_scratchpad(), forward, algorithm,
                                               of.dy, of.value, alpha, 0.0F);
}

dnnl::softmax_forward::primitive_desc softmax(const Context& context, const Desc& x, const Desc&) {
  return describe<dnnl::softmax_forward>(context, user_scratchpad(), kTraining, x, 1);
}

dnnl::softmax_backward::primitive_desc softmax_back(
    const Context& context, const Gradients& of,
    const dnnl::softmax_forward::primitive_desc& forward) {
  return describe_back<dnnl::softmax_backward>(context, user_scratchpad(), forward, of.dy, of.value,
                                               1);
}

dnnl::pooling_forward::primitive_desc pooling(const Context& context, dnnl::algorithm algorithm,
                                              const Desc& x, const Desc& y, const Dims& kernel,
                                              const Window& window) {
  return describe<dnnl::pooling_forward>(context, user_scratchpad(), kTraining, algorithm, x, y,
                                         window.strides, kernel, window.before, window.after);
}

dnnl::pooling_backward::primitive_desc pooling_back(
    const Context& context, dnnl::algorithm algorithm, const Gradients& of, const Dims& kernel,
    const Window& window, const dnnl::pooling_forward::primitive_desc& forward) {
  return describe_back<dnnl::pooling_backward>(context, user_scratchpad(), forward, algorithm,
                                               of.dx, of.dy, window.strides, kernel, window.before,
                                               window.after);
}
#endif

}  // namespace millrace::trainer::ops
