#include "trainer/models/unet.h"

#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/models/detail/builders.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

constexpr int kReduction = 32;  // from the image to the encoder's last stage

Value unit(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels) {
  x = builder.conv2d(name + ".conv", x, convolution(channels, 3, 1));
  return builder.relu(name + ".relu", builder.batch_norm(name + ".bn", x));
}

// Doubles the size and adds the encoder's features of that size.
Value expand(GraphBuilder& builder, const std::string& name, Value x, const Value* skip,
             std::int64_t channels) {
  x = unit(builder, name + ".reduce", x, channels);
  x = builder.upsample(name + ".upsample", x, {.factor = 2, .mode = nn::UpsampleMode::kBilinear});
  if (skip != nullptr) x = builder.add(name + ".skip", x, *skip);
  return unit(builder, name + ".blend2", unit(builder, name + ".blend1", x, channels), channels);
}

void add_head(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels) {
  if (channels == 0) return;
  x = unit(builder, name + ".unit", x, 32);
  builder.output(name, builder.conv2d(name + ".out", x, {.channels = channels, .kernel = 1}));
}

nn::Graph build_unet(const ModelOptions& options) {
  if (options.image.height % kReduction != 0 || options.image.width % kReduction != 0) {
    throw Error(ErrorCode::kInvalidArgument, "unet needs an image whose sides are multiples of 32");
  }
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  const Value entry = resnet_entry(builder, x, Stem::kImageNet);
  x = builder.max_pool2d("maxpool", entry, {.kernel = 3, .stride = 2, .padding = 1});
  const std::vector<Value> stages = resnet_stages(builder, x, basic_block, {3, 4, 6, 3});
  x = unit(builder, "centre1", stages[3], 512);
  x = unit(builder, "centre2", x, 512);
  x = expand(builder, "up4", x, &stages[2], 256);
  x = expand(builder, "up3", x, &stages[1], 128);
  x = expand(builder, "up2", x, &stages[0], 64);
  x = expand(builder, "up1", x, &entry, 64);
  x = expand(builder, "up0", x, nullptr, 32);
  add_head(builder, "mask", x, options.mask_channels);
  add_head(builder, "depth", x, options.depth_channels);
  return builder.build();
}

}  // namespace

const ComponentName UNet::kName = {
    "unet", "UNet", "U-Net on a ResNet-34 encoder, for masks and depths; sides in steps of 32 px"};

std::unique_ptr<Architecture> UNet::make() const {
  return make_architecture({.side = 96, .is_dense = true, .multiple_of = kReduction}, build_unet);
}

}  // namespace millrace::trainer::models
