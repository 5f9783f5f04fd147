#include "trainer/models/convnext.h"

#include <array>
#include <string>

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

struct ConvNeXtStage {
  std::int64_t channels;
  int blocks;
};
constexpr std::array<ConvNeXtStage, 4> kTiny = {{{96, 3}, {192, 3}, {384, 9}, {768, 3}}};
constexpr int kTinyBlocks = 18;
constexpr nn::LayerNorm kNextNorm = {.epsilon = 1e-6F};

nn::Conv2d next_conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
  return {.channels = channels,
          .kernel = kernel,
          .stride = stride,
          .init = nn::Init::kNormal002,
          .bias_init = nn::Init::kZeros};
}

// A linear layer of each pixel.
nn::Conv2d pixelwise(std::int64_t features) {
  nn::Conv2d layer = next_conv(features, 1, 1);
  layer.flat = true;
  return layer;
}

// torchvision's numbers of a block's layers; 1 and 6 move its axes.
Value next_block(GraphBuilder& builder, const std::string& name, Value x, float depth) {
  const std::int64_t channels = builder.shape(x)[0];
  nn::Conv2d depthwise = next_conv(channels, 7, 1);
  depthwise.padding = 3;
  depthwise.groups = channels;
  Value y = builder.conv2d(name + ".block.0", x, depthwise);
  y = builder.layer_norm(name + ".block.2", y, kNextNorm);
  y = builder.conv2d(name + ".block.3", y, pixelwise(4 * channels));
  y = builder.gelu(name + ".block.4", y);
  y = builder.conv2d(name + ".block.5", y, pixelwise(channels));
  y = builder.channel_scale(name + ".layer_scale", y, {.start = 1e-6F});
  if (depth > 0) y = builder.stochastic_depth(name + ".stochastic_depth", y, {depth});
  return builder.add(name + ".add", y, x);
}

Value next_features(GraphBuilder& builder, Value x, float depth) {
  int done = 0;
  for (std::size_t s = 0; s < kTiny.size(); ++s) {
    const std::string entry = "features." + std::to_string(2 * s);
    if (s == 0) {
      x = builder.conv2d(entry + ".0", x, next_conv(kTiny[s].channels, 4, 4));
      x = builder.layer_norm(entry + ".1", x, kNextNorm);
    } else {
      x = builder.layer_norm(entry + ".0", x, kNextNorm);
      x = builder.conv2d(entry + ".1", x, next_conv(kTiny[s].channels, 2, 2));
    }
    const std::string stage = "features." + std::to_string(2 * s + 1) + '.';
    for (int i = 0; i < kTiny[s].blocks; ++i) {
      const float share = static_cast<float>(done++) / static_cast<float>(kTinyBlocks - 1);
      x = next_block(builder, stage + std::to_string(i), x, depth * share);
    }
  }
  return x;
}

nn::Graph build_convnext(const ModelOptions& options, const ConvNeXtTiny& net) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = builder.adaptive_avg_pool2d("avgpool", next_features(builder, x, net.stochastic_depth));
  x = builder.flatten("classifier.1", builder.layer_norm("classifier.0", x, kNextNorm));
  builder.output("logits", builder.linear("classifier.2", x,
                                          {.features = options.num_classes,
                                           .init = nn::Init::kNormal002,
                                           .bias_init = nn::Init::kZeros}));
  return builder.build();
}

}  // namespace

const ComponentName ConvNeXtTiny::kName = {"convnext_tiny", "ConvNeXtTiny",
                                           "ConvNeXt-T: 7x7 depthwise convolutions, layer norm"};

void ConvNeXtTiny::fields(FieldList& field) {
  field("stochastic_depth", stochastic_depth, {.min = 0, .max = 1, .open_max = true},
        "Share of the samples that skip the last block; the blocks before it rise to that");
}

std::unique_ptr<Architecture> ConvNeXtTiny::make() const {
  return make_architecture(
      {}, [net = *this](const ModelOptions& options) { return build_convnext(options, net); });
}

}  // namespace millrace::trainer::models
