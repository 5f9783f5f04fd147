#include "trainer/models/alexnet.h"

#include <string>

namespace millrace::trainer::models {
namespace {

using nn::Conv2d;
using nn::GraphBuilder;
using nn::Value;

// Layers are numbered as torchvision's Sequential numbers them.
std::string feature(int index) { return "features." + std::to_string(index); }
std::string classifier(int index) { return "classifier." + std::to_string(index); }

Value convolve(GraphBuilder& builder, int index, Value x, const Conv2d& options) {
  return builder.relu(feature(index + 1), builder.conv2d(feature(index), x, options));
}

Value pool(GraphBuilder& builder, int index, Value x) {
  return builder.max_pool2d(feature(index), x, {.kernel = 3, .stride = 2});
}

Value alexnet_features(GraphBuilder& builder, Value x) {
  x = convolve(builder, 0, x, {.channels = 64, .kernel = 11, .stride = 4, .padding = 2});
  x = pool(builder, 2, x);
  x = convolve(builder, 3, x, {.channels = 192, .kernel = 5, .padding = 2});
  x = pool(builder, 5, x);
  x = convolve(builder, 6, x, {.channels = 384, .kernel = 3, .padding = 1});
  x = convolve(builder, 8, x, {.channels = 256, .kernel = 3, .padding = 1});
  x = convolve(builder, 10, x, {.channels = 256, .kernel = 3, .padding = 1});
  return pool(builder, 12, x);
}

Value hidden(GraphBuilder& builder, int index, Value x, float dropout) {
  x = builder.dropout(classifier(index), x, {.probability = dropout});
  x = builder.linear(classifier(index + 1), x, {.features = 4096});
  return builder.relu(classifier(index + 2), x);
}

nn::Graph build_alexnet(const ModelOptions& options, float dropout) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = builder.adaptive_avg_pool2d("avgpool", alexnet_features(builder, x), {.size = 6});
  x = hidden(builder, 0, builder.flatten("flatten", x), dropout);
  x = hidden(builder, 3, x, dropout);
  builder.output("logits", builder.linear(classifier(6), x, {.features = options.num_classes}));
  return builder.build();
}

}  // namespace

const ComponentName AlexNet::kName = {"alexnet", "AlexNet", "AlexNet in its one-tower form"};

void AlexNet::fields(FieldList& field) {
  field("dropout", dropout, {.min = 0, .max = 1, .open_max = true},
        "Share of the values that are dropped before its hidden layers");
}

std::unique_ptr<Architecture> AlexNet::make() const {
  return make_architecture({}, [dropout = dropout](const ModelOptions& options) {
    return build_alexnet(options, dropout);
  });
}

}  // namespace millrace::trainer::models
