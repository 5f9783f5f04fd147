// Inverted residual blocks: what MobileNets and EfficientNets are built of. Names and numbers as in
// torchvision.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/nn/graph.h"

namespace millrace::trainer::models {

enum class Activate { kNothing, kRelu, kHardSwish, kSilu, kSigmoid, kHardSigmoid };

nn::Value activate(nn::GraphBuilder& builder, const std::string& name, nn::Value x, Activate by);

/// A convolution without bias, batch norm, activation: NAME.0, NAME.1, NAME.2.
struct ConvUnit {
  std::int64_t channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  Activate activation = Activate::kNothing;
  nn::BatchNorm norm = {};
};
nn::Value conv_unit(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                    const ConvUnit& unit);

/// Channels times a gate of their means: NAME.fc1 to `channels`, NAME.fc2 back.
struct SqueezeExcite {
  std::int64_t channels = 0;  ///< 0: there is none
  Activate inner = Activate::kRelu;
  Activate gate = Activate::kSigmoid;
};
nn::Value squeeze_excite(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                         const SqueezeExcite& options);

/// 1x1 to more channels (unless they are as many), a convolution of each channel alone, squeeze and
/// excitation, 1x1 to fewer: NAME.block.0 and on. With as many channels and stride 1 the input is
/// added.
struct InvertedResidual {
  std::int64_t expanded = 0;
  std::int64_t channels = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Activate activation = Activate::kRelu;
  SqueezeExcite squeeze = {};
  nn::BatchNorm norm = {};
  float stochastic_depth = 0.0F;
};
nn::Value inverted_residual(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                            const InvertedResidual& options);

/// The multiple of 8 that is nearest, but no less than 90 % of it.
std::int64_t multiple_of_8(double channels);

}  // namespace millrace::trainer::models
