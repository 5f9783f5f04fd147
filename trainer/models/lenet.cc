// LeNet-5 with ReLU and max-pooling. Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based
// learning applied to document recognition" (1998), in the form of today's tutorials.
#include "trainer/models/detail/builders.h"

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

}  // namespace

nn::Graph lenet(const ModelOptions& options) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = builder.flatten("flatten", lenet_features(builder, x));
  x = builder.relu("relu3", builder.linear("fc1", x, {.features = 120}));
  x = builder.relu("relu4", builder.linear("fc2", x, {.features = 84}));
  builder.output("logits", builder.linear("fc3", x, {.features = options.num_classes}));
  return builder.build();
}

}  // namespace millrace::trainer::models
