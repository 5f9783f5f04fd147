// Each kind of layer's StableHLO, and which function has it.
//
// Threads: as builder.h's.
#pragma once

#include "trainer/hlo/layer_program.h"

namespace millrace::trainer::hlo {

LayerResults layer(const nn::Conv2d& layer, const LayerArguments& at);
LayerResults layer(const nn::ConvTranspose2d& layer, const LayerArguments& at);
LayerResults layer(const nn::BatchNorm& layer, const LayerArguments& at);
LayerResults layer(const nn::LayerNorm& layer, const LayerArguments& at);
LayerResults layer(const nn::ChannelScale& layer, const LayerArguments& at);
LayerResults layer(const nn::Tokens& layer, const LayerArguments& at);
LayerResults layer(const nn::Attention& layer, const LayerArguments& at);
LayerResults layer(const nn::TakeToken& layer, const LayerArguments& at);
LayerResults layer(const nn::Relu& layer, const LayerArguments& at);
LayerResults layer(const nn::Activation& layer, const LayerArguments& at);
LayerResults layer(const nn::Softmax& layer, const LayerArguments& at);
LayerResults layer(const nn::Add& layer, const LayerArguments& at);
LayerResults layer(const nn::Scale& layer, const LayerArguments& at);
LayerResults layer(const nn::Concat& layer, const LayerArguments& at);
LayerResults layer(const nn::Dropout& layer, const LayerArguments& at);
LayerResults layer(const nn::StochasticDepth& layer, const LayerArguments& at);
LayerResults layer(const nn::MaxPool2d& layer, const LayerArguments& at);
LayerResults layer(const nn::AvgPool2d& layer, const LayerArguments& at);
LayerResults layer(const nn::AdaptiveAvgPool2d& layer, const LayerArguments& at);
LayerResults layer(const nn::Upsample& layer, const LayerArguments& at);
LayerResults layer(const nn::Flatten& layer, const LayerArguments& at);
LayerResults layer(const nn::Reshape& layer, const LayerArguments& at);
LayerResults layer(const nn::Linear& layer, const LayerArguments& at);
/// Throws: Unsupported for one without StableHLO.
LayerResults layer(const nn::Custom& layer, const LayerArguments& at);

/// The node's layer. Throws: Unsupported, with its name and kind, for a layer without StableHLO.
LayerResults node_program(const LayerArguments& at);
void check_supported(const nn::Node& node);

}  // namespace millrace::trainer::hlo
