#include "trainer/models/mobilenet_v3.h"

#include <string>
#include <vector>

#include "trainer/models/detail/inverted_residual.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

constexpr nn::BatchNorm kMobileNorm = {.epsilon = 1e-3F, .momentum = 0.01F};
constexpr std::int64_t kFirstChannels = 16;

struct MobileBlock {
  std::int64_t kernel, expanded, channels;
  bool squeezes;
  Activate activation;
  std::int64_t stride;
};

struct MobileNet {
  std::vector<MobileBlock> blocks;
  std::int64_t hidden = 0;  ///< features of its classifier
  float dropout = 0.0F;
};

constexpr auto kRe = Activate::kRelu;
constexpr auto kHs = Activate::kHardSwish;

std::vector<MobileBlock> large_blocks() {
  return {{3, 16, 16, false, kRe, 1},  {3, 64, 24, false, kRe, 2},  {3, 72, 24, false, kRe, 1},
          {5, 72, 40, true, kRe, 2},   {5, 120, 40, true, kRe, 1},  {5, 120, 40, true, kRe, 1},
          {3, 240, 80, false, kHs, 2}, {3, 200, 80, false, kHs, 1}, {3, 184, 80, false, kHs, 1},
          {3, 184, 80, false, kHs, 1}, {3, 480, 112, true, kHs, 1}, {3, 672, 112, true, kHs, 1},
          {5, 672, 160, true, kHs, 2}, {5, 960, 160, true, kHs, 1}, {5, 960, 160, true, kHs, 1}};
}

std::vector<MobileBlock> small_blocks() {
  return {{3, 16, 16, true, kRe, 2},  {3, 72, 24, false, kRe, 2}, {3, 88, 24, false, kRe, 1},
          {5, 96, 40, true, kHs, 2},  {5, 240, 40, true, kHs, 1}, {5, 240, 40, true, kHs, 1},
          {5, 120, 48, true, kHs, 1}, {5, 144, 48, true, kHs, 1}, {5, 288, 96, true, kHs, 2},
          {5, 576, 96, true, kHs, 1}, {5, 576, 96, true, kHs, 1}};
}

std::string mobile_feature(std::size_t index) { return "features." + std::to_string(index); }

Value mobile_features(GraphBuilder& builder, Value x, const MobileNet& net) {
  x = conv_unit(builder, mobile_feature(0), x,
                {.channels = kFirstChannels,
                 .kernel = 3,
                 .stride = 2,
                 .activation = kHs,
                 .norm = kMobileNorm});
  std::size_t index = 1;
  for (const MobileBlock& block : net.blocks) {
    const std::int64_t squeezed =
        block.squeezes ? multiple_of_8(static_cast<double>(block.expanded / 4)) : 0;
    x = inverted_residual(builder, mobile_feature(index++), x,
                          {.expanded = block.expanded,
                           .channels = block.channels,
                           .kernel = block.kernel,
                           .stride = block.stride,
                           .activation = block.activation,
                           .squeeze = {.channels = squeezed, .gate = Activate::kHardSigmoid},
                           .norm = kMobileNorm});
  }
  return conv_unit(builder, mobile_feature(index), x,
                   {.channels = 6 * builder.shape(x)[0], .activation = kHs, .norm = kMobileNorm});
}

nn::Graph build_mobilenet(const ModelOptions& options, const MobileNet& net) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = mobile_features(builder, x, net);
  x = builder.flatten("flatten", builder.adaptive_avg_pool2d("avgpool", x));
  const auto linear = [&](const std::string& name, std::int64_t features) {
    return builder.linear(
        name, x,
        {.features = features, .init = nn::Init::kNormal001, .bias_init = nn::Init::kZeros});
  };
  x = builder.hard_swish("classifier.1", linear("classifier.0", net.hidden));
  x = builder.dropout("classifier.2", x, {.probability = net.dropout});
  builder.output("logits", linear("classifier.3", options.num_classes));
  return builder.build();
}

std::unique_ptr<Architecture> make_mobilenet(MobileNet net) {
  return make_architecture({}, [net = std::move(net)](const ModelOptions& options) {
    return build_mobilenet(options, net);
  });
}

void list_head_dropout(FieldList& field, float& dropout) {
  field("dropout", dropout, {.min = 0, .max = 1, .open_max = true},
        "Share of the values that are dropped before its last layer");
}

}  // namespace

const ComponentName MobileNetV3Large::kName = {"mobilenet_v3_large", "MobileNetV3Large",
                                               "MobileNetV3, the larger one"};
const ComponentName MobileNetV3Small::kName = {"mobilenet_v3_small", "MobileNetV3Small",
                                               "MobileNetV3, the smaller one"};

void MobileNetV3Large::fields(FieldList& field) { list_head_dropout(field, dropout); }
void MobileNetV3Small::fields(FieldList& field) { list_head_dropout(field, dropout); }

std::unique_ptr<Architecture> MobileNetV3Large::make() const {
  return make_mobilenet({.blocks = large_blocks(), .hidden = 1280, .dropout = dropout});
}

std::unique_ptr<Architecture> MobileNetV3Small::make() const {
  return make_mobilenet({.blocks = small_blocks(), .hidden = 1024, .dropout = dropout});
}

}  // namespace millrace::trainer::models
