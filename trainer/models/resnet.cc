#include "trainer/models/resnet.h"

#include <string>

#include "trainer/models/detail/builders.h"

namespace millrace::trainer {
namespace models {
namespace {

using nn::Conv2d;
using nn::GraphBuilder;
using nn::Init;
using nn::Value;

Value shortcut(GraphBuilder& builder, const std::string& block, Value x, std::int64_t channels,
               std::int64_t stride) {
  if (stride == 1 && builder.shape(x)[0] == channels) return x;
  x = builder.conv2d(block + ".downsample.0", x, convolution(channels, 1, stride));
  return builder.batch_norm(block + ".downsample.1", x);
}

/// What ResNeXts and wide ResNets change of a bottleneck.
struct Inner {
  std::int64_t groups = 1;  ///< of the 3x3 convolution
  std::int64_t width = 1;   ///< its channels, times the stage's
};

// Two 1x1 convolutions around a 3x3 one, which has the stride.
Value bottleneck(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels,
                 std::int64_t stride, const Inner& inner) {
  const std::int64_t width = channels * inner.width;
  Value y = builder.conv2d(name + ".conv1", x, convolution(width, 1, 1));
  y = builder.relu(name + ".relu1", builder.batch_norm(name + ".bn1", y));
  Conv2d middle = convolution(width, 3, stride);
  middle.groups = inner.groups;
  y = builder.conv2d(name + ".conv2", y, middle);
  y = builder.relu(name + ".relu2", builder.batch_norm(name + ".bn2", y));
  y = builder.conv2d(name + ".conv3", y, convolution(4 * channels, 1, 1));
  y = builder.batch_norm(name + ".bn3", y);
  y = builder.add(name + ".add", y, shortcut(builder, name, x, 4 * channels, stride));
  return builder.relu(name + ".relu3", y);
}

Block bottleneck_with(const Inner& inner) {
  return [inner](GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels,
                 std::int64_t stride) {
    return bottleneck(builder, name, x, channels, stride, inner);
  };
}

Value head(GraphBuilder& builder, Value x, std::int64_t num_classes) {
  x = builder.flatten("flatten", builder.adaptive_avg_pool2d("avgpool", x));
  return builder.linear("fc", x, {.features = num_classes});
}

nn::Graph build_resnet(const ModelOptions& options, Stem stem, const Block& block,
                       const Depths& depths) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = resnet_entry(builder, x, stem);
  if (stem == Stem::kImageNet) {
    x = builder.max_pool2d("maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  }
  x = resnet_stages(builder, x, block, depths).back();
  builder.output("logits", head(builder, x, options.num_classes));
  return builder.build();
}

std::unique_ptr<Architecture> make_resnet(Stem stem, const Block& block, const Depths& depths) {
  return make_architecture({.side = stem == Stem::k3x3 ? 32 : 224},
                           [stem, block, depths](const ModelOptions& options) {
                             return build_resnet(options, stem, block, depths);
                           });
}

void list_stem(FieldList& field, Stem& stem) {
  field("stem", stem, "Its entry: 7x7 and a max-pool (imagenet), or 3x3 for small images");
}

}  // namespace

Conv2d convolution(std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
  return {.channels = channels,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false,
          .init = Init::kKaimingNormal};
}

Value basic_block(GraphBuilder& builder, const std::string& name, Value x, std::int64_t width,
                  std::int64_t stride) {
  Value y = builder.conv2d(name + ".conv1", x, convolution(width, 3, stride));
  y = builder.relu(name + ".relu1", builder.batch_norm(name + ".bn1", y));
  y = builder.conv2d(name + ".conv2", y, convolution(width, 3, 1));
  y = builder.batch_norm(name + ".bn2", y);
  y = builder.add(name + ".add", y, shortcut(builder, name, x, width, stride));
  return builder.relu(name + ".relu2", y);
}

Value resnet_entry(GraphBuilder& builder, Value x, Stem stem, std::int64_t width) {
  const bool large = stem == Stem::kImageNet;
  x = builder.conv2d("conv1", x, large ? convolution(width, 7, 2) : convolution(width, 3, 1));
  return builder.relu("relu", builder.batch_norm("bn1", x));
}

std::vector<Value> resnet_stages(GraphBuilder& builder, Value x, const Block& block,
                                 const Depths& depths, std::int64_t width) {
  std::vector<Value> outputs;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::int64_t channels = width << stage;
    for (int i = 0; i < depths[stage]; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      x = block(builder, name, x, channels, stage > 0 && i == 0 ? 2 : 1);
    }
    outputs.push_back(x);
  }
  return outputs;
}

const ComponentName ResNet18::kName = {"resnet18", "ResNet18", "Residual network of 18 layers"};
const ComponentName ResNet34::kName = {"resnet34", "ResNet34", "Residual network of 34 layers"};
const ComponentName ResNet50::kName = {"resnet50", "ResNet50",
                                       "Residual network of 50 layers, with bottlenecks"};

const ComponentName ResNeXt50::kName = {"resnext50_32x4d", "ResNeXt50",
                                        "ResNet-50 with 3x3 convolutions of 32 groups"};
const ComponentName WideResNet50::kName = {"wide_resnet50_2", "WideResNet50",
                                           "ResNet-50 with 3x3 convolutions twice as wide"};

void ResNet18::fields(FieldList& field) { list_stem(field, stem); }
void ResNet34::fields(FieldList& field) { list_stem(field, stem); }
void ResNet50::fields(FieldList& field) { list_stem(field, stem); }
void ResNeXt50::fields(FieldList& field) { list_stem(field, stem); }
void WideResNet50::fields(FieldList& field) { list_stem(field, stem); }

std::unique_ptr<Architecture> ResNet18::make() const {
  return make_resnet(stem, basic_block, {2, 2, 2, 2});
}
std::unique_ptr<Architecture> ResNet34::make() const {
  return make_resnet(stem, basic_block, {3, 4, 6, 3});
}
std::unique_ptr<Architecture> ResNet50::make() const {
  return make_resnet(stem, bottleneck_with({}), {3, 4, 6, 3});
}
std::unique_ptr<Architecture> ResNeXt50::make() const {
  return make_resnet(stem, bottleneck_with({.groups = 32, .width = 2}), {3, 4, 6, 3});
}
std::unique_ptr<Architecture> WideResNet50::make() const {
  return make_resnet(stem, bottleneck_with({.width = 2}), {3, 4, 6, 3});
}

}  // namespace models

const ValueType& value_type(const Stem& /*stem*/) {
  static const EnumType<Stem> type({{"imagenet", Stem::kImageNet},
                                    {"3x3", Stem::k3x3},
                                    {"7x7", Stem::kImageNet},
                                    {"cifar", Stem::k3x3}});
  return type;
}

}  // namespace millrace::trainer
