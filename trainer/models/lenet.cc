#include "trainer/models/lenet.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

Value lenet_features(GraphBuilder& builder, Value x) {
  x = builder.conv2d("conv1", x, {.channels = 6, .kernel = 5, .padding = 2});
  x = builder.max_pool2d("pool1", builder.relu("relu1", x));
  x = builder.conv2d("conv2", x, {.channels = 16, .kernel = 5});
  return builder.max_pool2d("pool2", builder.relu("relu2", x));
}

nn::Graph build_lenet(const ModelOptions& options) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = builder.flatten("flatten", lenet_features(builder, x));
  x = builder.relu("relu3", builder.linear("fc1", x, {.features = 120}));
  x = builder.relu("relu4", builder.linear("fc2", x, {.features = 84}));
  builder.output("logits", builder.linear("fc3", x, {.features = options.num_classes}));
  return builder.build();
}

}  // namespace

const ComponentName LeNet::kName = {"lenet", "LeNet", "LeNet-5 with ReLU, for grey images"};

std::unique_ptr<Architecture> LeNet::make() const {
  return make_architecture({.side = 28, .channels = 1}, build_lenet);
}

}  // namespace millrace::trainer::models
