#include "trainer/models/resnet.h"

#include <numeric>
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

nn::BatchNorm last_norm(const BlockPlace& at) {
  return {.start = at.zero_init_residual ? 0.0F : 1.0F};
}

/// Of a block's input and of what it adds to it.
Value residual(GraphBuilder& builder, Value x, Value y, const BlockPlace& at,
               std::int64_t channels) {
  if (at.stochastic_depth > 0)
    y = builder.stochastic_depth(at.name + ".stochastic_depth", y, {at.stochastic_depth});
  return builder.add(at.name + ".add", y, shortcut(builder, at.name, x, channels, at.stride));
}

// Two 1x1 convolutions around a 3x3 one, which has the stride.
Value bottleneck(GraphBuilder& builder, Value x, const BlockPlace& at, const Inner& inner) {
  const std::string& name = at.name;
  const std::int64_t width = at.channels * inner.width;
  Value y = builder.conv2d(name + ".conv1", x, convolution(width, 1, 1));
  y = builder.relu(name + ".relu1", builder.batch_norm(name + ".bn1", y));
  Conv2d middle = convolution(width, 3, at.stride);
  middle.groups = inner.groups;
  y = builder.conv2d(name + ".conv2", y, middle);
  y = builder.relu(name + ".relu2", builder.batch_norm(name + ".bn2", y));
  y = builder.conv2d(name + ".conv3", y, convolution(4 * at.channels, 1, 1));
  y = builder.batch_norm(name + ".bn3", y, last_norm(at));
  return builder.relu(name + ".relu3", residual(builder, x, y, at, 4 * at.channels));
}

Block bottleneck_with(const Inner& inner) {
  return [inner](GraphBuilder& builder, Value x, const BlockPlace& at) {
    return bottleneck(builder, x, at, inner);
  };
}

Value head(GraphBuilder& builder, Value x, std::int64_t num_classes) {
  x = builder.flatten("flatten", builder.adaptive_avg_pool2d("avgpool", x));
  return builder.linear("fc", x, {.features = num_classes});
}

nn::Graph build_resnet(const ModelOptions& options, Stem stem, const Block& block,
                       const ResNetStages& stages) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = resnet_entry(builder, x, stem);
  if (stem == Stem::kImageNet) {
    x = builder.max_pool2d("maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  }
  x = resnet_stages(builder, x, block, stages).back();
  builder.output("logits", head(builder, x, options.num_classes));
  return builder.build();
}

/// Of a struct of resnet.h.
template <typename Net>
std::unique_ptr<Architecture> make_resnet(const Net& net, const Block& block,
                                          const Depths& depths) {
  const ResNetStages stages = {.depths = depths,
                               .stochastic_depth = net.stochastic_depth,
                               .zero_init_residual = net.zero_init_residual};
  return make_architecture({.side = net.stem == Stem::k3x3 ? 32 : 224},
                           [stem = net.stem, block, stages](const ModelOptions& options) {
                             return build_resnet(options, stem, block, stages);
                           });
}

template <typename Net>
void list_fields(FieldList& field, Net& net) {
  field("stem", net.stem, "Its entry: 7x7 and a max-pool (imagenet), or 3x3 for small images");
  field("stochastic_depth", net.stochastic_depth, {.min = 0, .max = 1, .open_max = true},
        "With which probability the last block leaves a sample as it is; the first: never");
  field("zero_init_residual", net.zero_init_residual,
        "Each block's last norm begins at 0, so that it passes its input on");
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

Value basic_block(GraphBuilder& builder, Value x, const BlockPlace& at) {
  const std::string& name = at.name;
  Value y = builder.conv2d(name + ".conv1", x, convolution(at.channels, 3, at.stride));
  y = builder.relu(name + ".relu1", builder.batch_norm(name + ".bn1", y));
  y = builder.conv2d(name + ".conv2", y, convolution(at.channels, 3, 1));
  y = builder.batch_norm(name + ".bn2", y, last_norm(at));
  return builder.relu(name + ".relu2", residual(builder, x, y, at, at.channels));
}

Value resnet_entry(GraphBuilder& builder, Value x, Stem stem, std::int64_t width) {
  const bool large = stem == Stem::kImageNet;
  x = builder.conv2d("conv1", x, large ? convolution(width, 7, 2) : convolution(width, 3, 1));
  return builder.relu("relu", builder.batch_norm("bn1", x));
}

std::vector<Value> resnet_stages(GraphBuilder& builder, Value x, const Block& block,
                                 const ResNetStages& stages) {
  const int last = std::accumulate(stages.depths.begin(), stages.depths.end(), 0) - 1;
  std::vector<Value> outputs;
  for (std::size_t stage = 0, done = 0; stage < stages.depths.size(); ++stage) {
    for (int i = 0; i < stages.depths[stage]; ++i, ++done) {
      const float share = static_cast<float>(done) / static_cast<float>(last);
      x = block(builder, x,
                {.name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i),
                 .channels = stages.width << stage,
                 .stride = stage > 0 && i == 0 ? 2 : 1,
                 .stochastic_depth = stages.stochastic_depth * share,
                 .zero_init_residual = stages.zero_init_residual});
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

void ResNet18::fields(FieldList& field) { list_fields(field, *this); }
void ResNet34::fields(FieldList& field) { list_fields(field, *this); }
void ResNet50::fields(FieldList& field) { list_fields(field, *this); }
void ResNeXt50::fields(FieldList& field) { list_fields(field, *this); }
void WideResNet50::fields(FieldList& field) { list_fields(field, *this); }

std::unique_ptr<Architecture> ResNet18::make() const {
  return make_resnet(*this, basic_block, {2, 2, 2, 2});
}
std::unique_ptr<Architecture> ResNet34::make() const {
  return make_resnet(*this, basic_block, {3, 4, 6, 3});
}
std::unique_ptr<Architecture> ResNet50::make() const {
  return make_resnet(*this, bottleneck_with({}), {3, 4, 6, 3});
}
std::unique_ptr<Architecture> ResNeXt50::make() const {
  return make_resnet(*this, bottleneck_with({.groups = 32, .width = 2}), {3, 4, 6, 3});
}
std::unique_ptr<Architecture> WideResNet50::make() const {
  return make_resnet(*this, bottleneck_with({.width = 2}), {3, 4, 6, 3});
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
