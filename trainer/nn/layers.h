// The layers that a Graph is made of: what each computes, as plain options.
//
// Shapes are of one sample, without the batch: (C, H, W) for images, (F) for features. Numerics,
// defaults and parameter shapes are PyTorch's, so that weights travel both ways.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Height and width; one number stands for both.
struct Extent2d {
  std::int64_t height;
  std::int64_t width;

  constexpr Extent2d(std::int64_t both) : height(both), width(both) {}  // NOLINT: 3 means 3x3
  constexpr Extent2d(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

/// How a parameter starts.
enum class Init {
  kZeros,
  kOnes,
  kKaimingNormal,   ///< Normal, deviation sqrt(2 / fan): ResNet's convolutions, fan_out
  kKaimingUniform,  ///< Uniform within 1 / sqrt(fan): PyTorch's kaiming_uniform(a = sqrt(5)),
                    ///< fan_in
};

struct Input {};

/// Weight (O, I / groups, H, W), bias (O).
struct Conv2d {
  std::int64_t channels = 0;
  Extent2d kernel = 3;
  Extent2d stride = 1;
  Extent2d padding = 0;
  Extent2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Init init = Init::kKaimingUniform;
};

/// Batch statistics in training (biased variance), running ones in evaluation; float32 always.
/// Parameters weight, bias (C); state running_mean, running_var (unbiased), num_batches_tracked.
struct BatchNorm {
  float epsilon = 1e-5F;
  float momentum = 0.1F;
};

struct Relu {};
/// The sum of two values of one shape.
struct Add {};

/// In training each value is zeroed with this probability and else scaled by 1 / (1 - probability);
/// in evaluation nothing happens. Which, is keyed: Plan::set_random_key().
struct Dropout {
  float probability = 0.5F;
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
};

using Layer = std::variant<Input, Conv2d, BatchNorm, Relu, Add, Dropout, MaxPool2d,
                           AdaptiveAvgPool2d, Flatten, Linear>;

/// "conv2d", "batch_norm": what messages and summaries call it.
std::string_view layer_name(const Layer& layer);

}  // namespace millrace::trainer::nn
