// oneDNN's primitives as the ops describe them.
//
// The interfaces of oneDNN 2 and 3 differ. primitives.cc alone knows which one it is compiled with:
// whatever is spelled differently in them is declared here. All primitives are for training, with
// the caller's workspace. Each throws dnnl::error where oneDNN has no code for it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/ops/detail/onednn.h"

namespace millrace::trainer::ops {

using Dims = dnnl::memory::dims;

Dims dims_of(const Desc& desc);
DataType type_of(const Desc& desc);

/// The layout of images with another type; the plain order if it is none that oneDNN has a name
/// for.
Desc with_type(const Desc& desc, DataType type);

/// A block of an axis, which lies together.
struct Block {
  std::size_t axis = 0;
  std::int64_t size = 1;
};
/// How an array lies in memory: the stride of each axis, of its blocks if it is in blocks, and the
/// blocks from the outermost to the innermost. No strides: an order of the library's own.
struct Blocking {
  Dims strides;
  std::vector<Block> blocks;
};
Blocking blocking_of(const Desc& desc);

/// The library's name of the code that computes it: "brgconv:avx512_core_bf16".
std::string implementation_of(const dnnl::primitive& primitive);

/// What a layer with weights reads and writes: values in a forward pass, the gradients of those
/// that a backward pass computes. `bias` is empty for a layer without.
struct Operands {
  Desc x, weights, bias, y;
};

/// The steps of a window over an image.
struct Window {
  Dims strides;
  Dims dilates;  ///< pixels left out between two that are read
  Dims before;   ///< padding
  Dims after;
};

dnnl::convolution_forward::primitive_desc convolution(const Context& context,
                                                      const Operands& operands,
                                                      const Window& window, bool relu = false);
dnnl::convolution_backward_weights::primitive_desc convolution_weights(
    const Context& context, const Operands& operands, const Window& window,
    const dnnl::convolution_forward::primitive_desc& forward);
dnnl::convolution_backward_data::primitive_desc convolution_data(
    const Context& context, const Operands& operands, const Window& window,
    const dnnl::convolution_forward::primitive_desc& forward);

dnnl::deconvolution_forward::primitive_desc deconvolution(const Context& context,
                                                          const Operands& operands,
                                                          const Window& window);
dnnl::deconvolution_backward_weights::primitive_desc deconvolution_weights(
    const Context& context, const Operands& operands, const Window& window,
    const dnnl::deconvolution_forward::primitive_desc& forward);
dnnl::deconvolution_backward_data::primitive_desc deconvolution_data(
    const Context& context, const Operands& operands, const Window& window,
    const dnnl::deconvolution_forward::primitive_desc& forward);

dnnl::inner_product_forward::primitive_desc inner_product(const Context& context,
                                                          const Operands& operands,
                                                          bool relu = false);
dnnl::inner_product_backward_weights::primitive_desc inner_product_weights(
    const Context& context, const Operands& operands,
    const dnnl::inner_product_forward::primitive_desc& forward);
dnnl::inner_product_backward_data::primitive_desc inner_product_data(
    const Context& context, const Operands& operands,
    const dnnl::inner_product_forward::primitive_desc& forward);

/// Products of a batch of matrices: (N, I, K) and (N, K, J) to (N, I, J).
dnnl::matmul::primitive_desc matrix_product(const Context& context, const Desc& a, const Desc& b,
                                            const Desc& product);

/// What a backward pass without weights reads and writes: a value (the result for softmax, else the
/// input), its gradient, and that of the result.
struct Gradients {
  Desc value, dx, dy;
};

dnnl::eltwise_forward::primitive_desc eltwise(const Context& context, dnnl::algorithm algorithm,
                                              float alpha, const Desc& x, const Desc& y);
dnnl::eltwise_backward::primitive_desc eltwise_back(
    const Context& context, dnnl::algorithm algorithm, float alpha, const Gradients& gradients,
    const dnnl::eltwise_forward::primitive_desc& forward);

/// Along the second dimension.
dnnl::softmax_forward::primitive_desc softmax(const Context& context, const Desc& x, const Desc& y);
dnnl::softmax_backward::primitive_desc softmax_back(
    const Context& context, const Gradients& gradients,
    const dnnl::softmax_forward::primitive_desc& forward);

dnnl::resampling_forward::primitive_desc resampling(const Context& context,
                                                    dnnl::algorithm algorithm, const Desc& x,
                                                    const Desc& y);
dnnl::resampling_backward::primitive_desc resampling_back(
    const Context& context, dnnl::algorithm algorithm, const Gradients& gradients,
    const dnnl::resampling_forward::primitive_desc& forward);

/// The window's dilates are 0.
dnnl::pooling_forward::primitive_desc pooling(const Context& context, dnnl::algorithm algorithm,
                                              const Desc& x, const Desc& y, const Dims& kernel,
                                              const Window& window);
dnnl::pooling_backward::primitive_desc pooling_back(
    const Context& context, dnnl::algorithm algorithm, const Gradients& gradients,
    const Dims& kernel, const Window& window, const dnnl::pooling_forward::primitive_desc& forward);

}  // namespace millrace::trainer::ops
