// What several models are built of.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/models/resnet.h"

namespace millrace::trainer::models {

/// A ResNet's convolution: no bias, kaiming_normal, padding that keeps the size.
nn::Conv2d convolution(std::int64_t channels, std::int64_t kernel, std::int64_t stride);

using Depths = std::array<int, 4>;
/// Where a block stands in its network.
struct BlockPlace {
  std::string name;
  std::int64_t channels = 0;  ///< the stage's
  std::int64_t stride = 1;
  float stochastic_depth = 0.0F;
  bool zero_init_residual = false;  ///< at the start a block passes its input on
};
using Block = std::function<nn::Value(nn::GraphBuilder&, nn::Value, const BlockPlace&)>;

nn::Value basic_block(nn::GraphBuilder& builder, nn::Value x, const BlockPlace& at);
/// Channels of a ResNet's entry and first stage, as in the paper; each stage doubles them.
inline constexpr std::int64_t kResNetWidth = 64;

/// conv1, bn1, relu.
nn::Value resnet_entry(nn::GraphBuilder& builder, nn::Value x, Stem stem,
                       std::int64_t width = kResNetWidth);
struct ResNetStages {
  Depths depths = {};
  std::int64_t width = kResNetWidth;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;
};
/// layer1 to layer4; returns the output of each.
std::vector<nn::Value> resnet_stages(nn::GraphBuilder& builder, nn::Value x, const Block& block,
                                     const ResNetStages& stages);

}  // namespace millrace::trainer::models
