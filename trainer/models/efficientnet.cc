#include "trainer/models/efficientnet.h"

#include <array>
#include <string>

#include "trainer/models/detail/inverted_residual.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

struct EfficientStage {
  std::int64_t expansion, kernel, stride, channels;
  int blocks;
};
constexpr std::array<EfficientStage, 7> kB0 = {{{1, 3, 1, 16, 1},
                                                {6, 3, 2, 24, 2},
                                                {6, 5, 2, 40, 2},
                                                {6, 3, 2, 80, 3},
                                                {6, 5, 1, 112, 3},
                                                {6, 5, 2, 192, 4},
                                                {6, 3, 1, 320, 1}}};

int num_blocks() {
  int all = 0;
  for (const EfficientStage& stage : kB0) all += stage.blocks;
  return all;
}

// Depth's probability rises from block to block.
Value efficient_stages(GraphBuilder& builder, Value x, float depth) {
  int done = 0;
  for (std::size_t s = 0; s < kB0.size(); ++s) {
    const EfficientStage& stage = kB0[s];
    for (int i = 0; i < stage.blocks; ++i) {
      const std::int64_t in = builder.shape(x)[0];
      const std::string name = "features." + std::to_string(s + 1) + '.' + std::to_string(i);
      const float share = static_cast<float>(done++) / static_cast<float>(num_blocks());
      x = inverted_residual(builder, name, x,
                            {.expanded = multiple_of_8(static_cast<double>(in * stage.expansion)),
                             .channels = stage.channels,
                             .kernel = stage.kernel,
                             .stride = i == 0 ? stage.stride : 1,
                             .activation = Activate::kSilu,
                             .squeeze = {.channels = in / 4, .inner = Activate::kSilu},
                             .stochastic_depth = depth * share});
    }
  }
  return x;
}

nn::Graph build_efficientnet(const ModelOptions& options, const EfficientNetB0& net) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = conv_unit(builder, "features.0", x,
                {.channels = 32, .kernel = 3, .stride = 2, .activation = Activate::kSilu});
  x = efficient_stages(builder, x, net.stochastic_depth);
  x = conv_unit(builder, "features.8", x, {.channels = 1280, .activation = Activate::kSilu});
  x = builder.flatten("flatten", builder.adaptive_avg_pool2d("avgpool", x));
  x = builder.dropout("classifier.0", x, {.probability = net.dropout});
  builder.output("logits", builder.linear("classifier.1", x,
                                          {.features = options.num_classes,
                                           .init = nn::Init::kUniformOut,
                                           .bias_init = nn::Init::kZeros}));
  return builder.build();
}

}  // namespace

const ComponentName EfficientNetB0::kName = {
    "efficientnet_b0", "EfficientNetB0", "EfficientNet-B0: depthwise convolutions, gated channels"};

void EfficientNetB0::fields(FieldList& field) {
  field("dropout", dropout, {.min = 0, .max = 1, .open_max = true},
        "Share of the values that are dropped before its last layer");
  field("stochastic_depth", stochastic_depth, {.min = 0, .max = 1, .open_max = true},
        "Share of the samples that skip the last block; the blocks before it rise to that");
}

std::unique_ptr<Architecture> EfficientNetB0::make() const {
  return make_architecture(
      {}, [net = *this](const ModelOptions& options) { return build_efficientnet(options, net); });
}

}  // namespace millrace::trainer::models
