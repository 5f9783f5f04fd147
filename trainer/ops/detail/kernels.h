// millrace's own loops: what oneDNN cannot fuse, in one pass over memory each.
//
// Blocks of 16 channels, and bf16 in memory, are for Isa::kAvx512 and more (instructions.h); other
// blocks are of 8.
//
// Arrays are float32 or bf16; arithmetic is float32. Where bf16 is emulated an array is float32,
// and each value is rounded to bf16 as it is loaded and as it is stored: to nearest, ties to even.
// Images are (N, C / block, H * W, block), or channels-last, where the block is all channels and
// without padding. Work is split over the calling thread's OpenMP
// team, and results do not depend on how many threads it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/nn/plan.h"
#include "trainer/ops/detail/onednn.h"

namespace millrace::trainer::ops {

enum class Storage { kFloat32, kBFloat16, kRounded };

/// A value of an array in Storage::kRounded.
struct RoundedFloat {
  float value;
};

/// Of a plan's activations.
Storage storage_of(const Context& context);
constexpr std::size_t value_bytes(Storage storage) { return storage == Storage::kBFloat16 ? 2 : 4; }
/// Values including the padding of blocked channels.
std::size_t padded_values(const dnnl::memory& memory);

/// out = a + b, b null for none; negative values become 0 with `relu`. out may be a or b.
struct AddArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  bool relu = false;
};
void add(Storage storage, std::size_t count, const AddArguments& arguments);

/// out = a + b where y > 0, else 0; b null for none, y null for everywhere. out may be a or b.
struct MaskArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* y = nullptr;
  void* out = nullptr;
};
void add_masked(Storage storage, std::size_t count, const MaskArguments& arguments);

/// out = f(x), or dy times its slope if there is a dy: f is (x + 3) / 6 within 0 and 1, or that
/// times x. out may be x or dy.
struct HardActivation {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  bool times_x = false;
};
void hard_activation(Storage storage, std::size_t count, const HardActivation& arguments);

/// out = x * scale where keep is 1, 0 where it is 0. out may be x.
struct KeepArguments {
  const void* x = nullptr;
  const std::uint8_t* keep = nullptr;
  float scale = 1;
  void* out = nullptr;
};
void keep_some(Storage storage, std::size_t count, const KeepArguments& arguments);

/// keep[i] = 0 with the given probability, else 1, for `samples` samples in a row, each by its key.
void draw_keep(const nn::BatchKey& key, float probability, std::int64_t samples,
               std::span<std::uint8_t> keep);
/// The same for whole samples: one choice for all of a sample's values.
void draw_keep_samples(const nn::BatchKey& key, float probability, std::int64_t samples,
                       std::span<std::uint8_t> keep);

/// Rows of bytes from one place to another; a stride is the distance between two rows' beginnings.
struct RowCopies {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  ///< of a row
  const std::byte* from = nullptr;
  std::int64_t from_stride = 0;
  std::byte* to = nullptr;
  std::int64_t to_stride = 0;
};
void copy_rows(const RowCopies& copies);

/// Float32 values to the nearest bf16 ones, in place.
void round_to_bfloat16(const dnnl::memory& memory);
/// The bf16 values of `from` as the float32 ones of `to`, in the same order.
void widen_bfloat16(const dnnl::memory& from, const dnnl::memory& to);

/// An image batch: N, C / block, H * W, block (8, 16, or all channels), and C without padding.
struct ImageShape {
  std::int64_t images = 0;
  std::int64_t blocks = 0;
  std::int64_t pixels = 0;
  std::int64_t block = 16;
  std::int64_t channels = 0;
  bool channels_last = false;

  std::int64_t rows() const { return images * pixels; }  ///< pixels of all images, in order
  /// Where in the memory a row's first block begins; the next one begins pixels * block further on.
  std::int64_t row_offset(std::int64_t row) const {
    return (row / pixels * blocks * pixels + row % pixels) * block;
  }
};

/// Zeros in the last block's padding.
void clear_padding(const ImageShape& shape, std::size_t value_bytes, void* values);

/// Planes of an image batch, N * C / block, and of a factor for each of their channels.
struct ScaleShape {
  std::int64_t planes = 0;
  std::int64_t block = 16;
  std::int64_t pixels = 0;
};
/// y = x * factor.
struct ScaleForward {
  const void* x = nullptr;
  const void* factor = nullptr;
  void* y = nullptr;
};
void scale_channels(Storage storage, const ScaleShape& shape, const ScaleForward& arguments);

struct ScaleBackward {
  const void* x = nullptr;
  const void* factor = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  void* dfactor = nullptr;
};
void scale_channels_backward(Storage storage, const ScaleShape& shape,
                             const ScaleBackward& arguments);

/// Floats that the sums of a backward pass over rows (pixels) take; `sums` a channel.
std::size_t row_scratch(const ImageShape& shape, std::size_t sums);

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, over each pixel's channels; padding is
/// left alone.
struct LayerNormForward {
  const void* x = nullptr;
  void* y = nullptr;
  std::span<const float> gamma;  ///< (C)
  std::span<const float> beta;
  float epsilon = 1e-5F;
  std::span<float> statistics;  ///< of each row mean and inverse deviation, for the backward pass
};
void layer_norm(Storage storage, const ImageShape& shape, const LayerNormForward& arguments);

struct LayerNormBackward {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;  ///< may be dy
  std::span<const float> gamma;
  std::span<const float> statistics;
  std::span<float> dgamma;
  std::span<float> dbeta;
  std::span<float> scratch;  ///< row_scratch(shape, 2)
};
void layer_norm_backward(Storage storage, const ImageShape& shape,
                         const LayerNormBackward& arguments);

/// y = x * weight, a channel's; padding is left alone.
struct ChannelWeights {
  const void* x = nullptr;
  void* y = nullptr;
  std::span<const float> weights;  ///< (C)
};
void weigh_channels(Storage storage, const ImageShape& shape, const ChannelWeights& arguments);

struct ChannelWeightsBackward {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;  ///< may be dy
  std::span<const float> weights;
  std::span<float> dweights;
  std::span<float> scratch;  ///< row_scratch(shape, 1)
};
void weigh_channels_backward(Storage storage, const ImageShape& shape,
                             const ChannelWeightsBackward& arguments);

/// Floats that batch norm of channels-last images keeps its sums and constants in during a call; 0
/// for blocks.
std::size_t batch_norm_scratch(const ImageShape& shape);

/// y = gamma * (x - mean) * inverse_deviation + beta, then + residual, then ReLU, if they are set.
struct BatchNormForward {
  const void* x = nullptr;
  const void* residual = nullptr;  ///< or null
  void* y = nullptr;
  bool relu = false;
  std::span<const float> gamma;  ///< (C)
  std::span<const float> beta;
  std::span<float> running_mean;
  std::span<float> running_variance;
  std::span<float> mean;               ///< (padded C): the batch's, saved for the backward pass
  std::span<float> inverse_deviation;  ///< likewise
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  std::span<float> scratch = {};  ///< batch_norm_scratch()
};
/// With the batch's statistics, with which the running ones are updated.
void batch_norm_train(Storage storage, const ImageShape& shape, const BatchNormForward& arguments);
/// With the running statistics.
void batch_norm_evaluate(Storage storage, const ImageShape& shape,
                         const BatchNormForward& arguments);

struct BatchNormBackward {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* dy2 = nullptr;  ///< a second part of the gradient, or null
  const void* y = nullptr;    ///< the output, if the ReLU's mask does not follow from x alone
  bool relu = false;
  void* g = nullptr;   ///< dy after the ReLU, for the residual; may be dy or null
  void* dx = nullptr;  ///< may be dy; null if not needed
  std::span<const float> gamma;
  std::span<const float> beta;
  std::span<const float> mean;
  std::span<const float> inverse_deviation;
  std::span<float> dgamma = {};
  std::span<float> dbeta = {};
  std::span<float> scratch = {};  ///< batch_norm_scratch()
};
void batch_norm_backward(Storage storage, const ImageShape& shape,
                         const BatchNormBackward& arguments);

/// Height and width before and after pooling.
struct PoolShape {
  std::int64_t planes = 0;  ///< N * C / block
  std::int64_t block = 16;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
};
/// Output (i, j) averages rows [i * H / h, ceil((i + 1) * H / h)) and columns likewise.
void adaptive_avg_pool(Storage storage, const PoolShape& shape, const void* x, void* y);
/// 1 / the number of values that each output averages.
std::vector<float> adaptive_avg_scales(const PoolShape& shape);
void adaptive_avg_pool_backward(Storage storage, const PoolShape& shape,
                                std::span<const float> scales, const void* dy, void* dx);

}  // namespace millrace::trainer::ops
