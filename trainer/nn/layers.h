// The layers that a Graph is made of: what each computes, as plain options.
//
// Shapes are of one sample, without the batch: (C, H, W) for images, (F) for features. Numerics,
// defaults and parameter shapes are PyTorch's, so that weights can be exchanged in both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::trainer::nn {

using Shape = std::vector<std::int64_t>;

/// "(64, 8, 8)".
std::string shape_text(const Shape& shape);
std::int64_t num_values(const Shape& shape);

/// Height and width; one number sets both.
struct Extent2d {
  std::int64_t height;
  std::int64_t width;

  constexpr Extent2d(std::int64_t both) : height(both), width(both) {}  // NOLINT: 3 means 3x3
  constexpr Extent2d(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

/// The distribution of a parameter's start values.
enum class Init {
  kZeros,
  kOnes,
  kKaimingNormal,   ///< Normal, deviation sqrt(2 / fan): ResNet's convolutions, fan_out
  kKaimingUniform,  ///< Uniform within 1 / sqrt(fan): PyTorch's kaiming_uniform(a = sqrt(5)),
                    ///< fan_in
  kUniformOut,      ///< Uniform within 1 / sqrt(fan_out): EfficientNet's head
  kNormal001,       ///< Normal, deviation 0.01: MobileNets' heads
  kNormal002,       ///< Normal, deviation 0.02: ConvNeXt's and ViT's
  kConstant,        ///< InitSpec::value
  kUniformMean,     ///< Uniform, deviation 1 / fan_in: the mean of the inputs, at random signs
  kDirac,           ///< kKaimingUniform, but the first outputs are the inputs (torch's dirac_)
  kWhitening,       ///< kKaimingUniform until a run has pictures: trainer/nn/whitening.h
};

struct Input {};

/// Another layer's parameters, used instead of a layer's own: GraphBuilder::weights_of().
struct SharedWeights {
  std::size_t weight = 0;
  std::size_t bias = 0;
};

/// Weight (O, I / groups, H, W), bias (O). A flat one, of a 1x1 kernel in one group, is a linear
/// layer of each pixel: its weight is (O, I).
struct Conv2d {
  std::int64_t channels = 0;
  Extent2d kernel = 3;
  Extent2d stride = 1;
  Extent2d padding = 0;
  Extent2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  bool flat = false;
  /// Its parameters are <layer>_weight and <layer>_bias, as PyTorch's attention names in_proj's.
  bool joins_names = false;
  Init init = Init::kKaimingUniform;
  Init bias_init = Init::kKaimingUniform;
  /// kWhitening: of how many of the first epoch's slots; 0: of those of the first step's batches.
  int init_samples = 0;
  std::optional<SharedWeights> shared = {};
};

/// Batch statistics in training (biased variance), running ones in evaluation; float32 always.
/// Parameters weight, bias (C); buffers running_mean, running_var (unbiased), num_batches_tracked.
struct BatchNorm {
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  float start = 1.0F;  ///< the weights' first value
};

/// Over the channels of each pixel, or over the features. Parameters weight, bias (C).
struct LayerNorm {
  float epsilon = 1e-5F;
};

/// Each channel times a weight of its own, (C, 1, 1), which has the layer's name.
struct ChannelScale {
  float start = 1.0F;  ///< the weights' first value
};

/// An image's pixels as tokens, row by row, after a class token, each with its place's embedding
/// added: (C, H, W) to (C, 1 + H * W, 1). Parameters, which a bf16 plan does not round: the class
/// token, (1, 1, C), which has the layer's name, and `positions`, (1, 1 + H * W, C).
struct Tokens {
  std::string positions = "positions";
};

/// Of (3 * C, T, 1), each token's query, key and value: softmax(Q K^T / sqrt(C / heads)) V of each
/// head, which is C / heads of the channels: (C, T, 1).
/// Of a second input, one of the graph's, the first `masked` values are of the last `masked`
/// tokens: where one is 0, no token attends to that token. The tokens before them are always seen.
struct Attention {
  std::int64_t heads = 1;
  bool causal = false;  ///< a token attends to itself and to those before it
  std::int64_t masked = 0;
};

/// One token's features: (C, T, 1) to (C).
struct TakeToken {
  std::int64_t index = 0;
};

struct Relu {};
/// The sum of two values of one shape.
struct Add {};
/// An image's channels, each times its factor: of (C, H, W) and (C, 1, 1).
struct Scale {};

enum class ActivationKind {
  kLeakyRelu,  ///< x, or slope * x below 0
  kSigmoid,
  kGelu,         ///< x Phi(x), by the error function
  kSilu,         ///< x sigmoid(x)
  kHardSwish,    ///< x times kHardSigmoid's
  kHardSigmoid,  ///< (x + 3) / 6, within 0 and 1
};
struct Activation {
  ActivationKind kind = ActivationKind::kLeakyRelu;
  float slope = 0.01F;  ///< kLeakyRelu's
};

/// Over the channels of each pixel, or over the features.
struct Softmax {};
/// Along the channels, or the features; everything else must agree.
struct Concat {};
/// The same values, in (C, H, W) order, as another shape.
struct Reshape {
  Shape shape;
};

enum class UpsampleMode { kNearest, kBilinear };
/// To `factor` times the height and width; bilinear as PyTorch's align_corners = False.
struct Upsample {
  std::int64_t factor = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
};

/// Weight (I, O, H, W), bias (O); H' = (H - 1) stride - 2 padding + kernel + output_padding.
struct ConvTranspose2d {
  std::int64_t channels = 0;
  Extent2d kernel = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;
  Extent2d output_padding = 0;
  bool bias = true;
};

/// The mean of each window; padding counts as zeros, as in PyTorch.
struct AvgPool2d {
  Extent2d kernel = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;
};

/// In training each value is zeroed with this probability and otherwise scaled by 1 / (1 -
/// probability); in evaluation nothing happens. Plan::set_random_key() keys the choice.
struct Dropout {
  float probability = 0.5F;
};

/// In training all of a sample's values are zeroed with this probability and otherwise scaled by 1
/// / (1 - probability); in evaluation nothing happens. Keyed as Dropout's choices.
struct StochasticDepth {
  float probability = 0.0F;
};

struct MaxPool2d {
  Extent2d kernel = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;
};

/// Averages to `size` by PyTorch's adaptive rule; {1, 1} is global pooling.
struct AdaptiveAvgPool2d {
  Extent2d size = 1;
};

/// (C, H, W) to (C * H * W).
struct Flatten {};

/// Weight (O, I), bias (O).
struct Linear {
  std::int64_t features = 0;
  bool bias = true;
  Init init = Init::kKaimingUniform;
  Init bias_init = Init::kKaimingUniform;
  std::optional<SharedWeights> shared = {};
};

class CustomLayer;  // trainer/nn/custom_layer.h

/// A layer of a program's own.
struct Custom {
  std::shared_ptr<const CustomLayer> layer;
};

using Layer = std::variant<Input, Conv2d, ConvTranspose2d, BatchNorm, LayerNorm, ChannelScale,
                           Tokens, Attention, TakeToken, Relu, Activation, Softmax, Add, Scale,
                           Concat, Dropout, StochasticDepth, MaxPool2d, AvgPool2d,
                           AdaptiveAvgPool2d, Upsample, Flatten, Reshape, Linear, Custom>;

/// "conv2d", "batch_norm": the layer's kind in messages and summaries.
std::string_view layer_name(const Layer& layer);

}  // namespace millrace::trainer::nn
