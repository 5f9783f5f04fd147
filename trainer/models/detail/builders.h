// What several models are built of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/models/resnet.h"

namespace millrace::trainer::models {

/// A ResNet's convolution: no bias, kaiming_normal, padding that keeps the size.
nn::Conv2d convolution(std::int64_t channels, std::int64_t kernel, std::int64_t stride);

using Depths = std::array<int, 4>;
using Block = nn::Value (*)(nn::GraphBuilder&, const std::string&, nn::Value, std::int64_t,
                            std::int64_t);

nn::Value basic_block(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                      std::int64_t width, std::int64_t stride);
/// conv1, bn1, relu.
nn::Value resnet_entry(nn::GraphBuilder& builder, nn::Value x, Stem stem);
/// layer1 to layer4; returns the output of each.
std::vector<nn::Value> resnet_stages(nn::GraphBuilder& builder, nn::Value x, Block block,
                                     const Depths& depths);

}  // namespace millrace::trainer::models
