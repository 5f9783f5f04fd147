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
/// Of a builder, a name, the input, the stage's channels and the stride.
using Block = std::function<nn::Value(nn::GraphBuilder&, const std::string&, nn::Value,
                                      std::int64_t, std::int64_t)>;

nn::Value basic_block(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                      std::int64_t width, std::int64_t stride);
/// Channels of a ResNet's entry and first stage, as in the paper; each stage doubles them.
inline constexpr std::int64_t kResNetWidth = 64;

/// conv1, bn1, relu.
nn::Value resnet_entry(nn::GraphBuilder& builder, nn::Value x, Stem stem,
                       std::int64_t width = kResNetWidth);
/// layer1 to layer4; returns the output of each.
std::vector<nn::Value> resnet_stages(nn::GraphBuilder& builder, nn::Value x, const Block& block,
                                     const Depths& depths, std::int64_t width = kResNetWidth);

}  // namespace millrace::trainer::models
