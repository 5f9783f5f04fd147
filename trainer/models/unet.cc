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

void add_head(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels,
              std::int64_t width) {
  if (channels == 0) return;
  x = unit(builder, name + ".unit", x, width / 2);
  builder.output(name, builder.conv2d(name + ".out", x, {.channels = channels, .kernel = 1}));
}

nn::Graph build_unet(const ModelOptions& options, std::int64_t width) {
  if (options.image.height % kReduction != 0 || options.image.width % kReduction != 0) {
    throw Error(ErrorCode::kInvalidArgument, "unet needs an image whose sides are multiples of 32");
  }
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  const Value entry = resnet_entry(builder, x, Stem::kImageNet, width);
  x = builder.max_pool2d("maxpool", entry, {.kernel = 3, .stride = 2, .padding = 1});
  const std::vector<Value> stages =
      resnet_stages(builder, x, basic_block, {.depths = {3, 4, 6, 3}, .width = width});
  x = unit(builder, "centre1", stages[3], 8 * width);
  x = unit(builder, "centre2", x, 8 * width);
  x = expand(builder, "up4", x, &stages[2], 4 * width);
  x = expand(builder, "up3", x, &stages[1], 2 * width);
  x = expand(builder, "up2", x, &stages[0], width);
  x = expand(builder, "up1", x, &entry, width);
  x = expand(builder, "up0", x, nullptr, width / 2);
  add_head(builder, "mask", x, options.mask_channels, width);
  add_head(builder, "depth", x, options.depth_channels, width);
  return builder.build();
}

}  // namespace

const ComponentName UNet::kName = {
    "unet", "UNet", "U-Net on a ResNet-34 encoder, for masks and depths; sides in steps of 32 px"};

void UNet::fields(FieldList& field) {
  field("width", width, {.min = 2, .max = 1024},
        "Channels of its first stage; the deeper ones have 2, 4, 8 times as many");
}

std::unique_ptr<Architecture> UNet::make() const {
  return make_architecture(
      {.side = 96, .is_dense = true, .multiple_of = kReduction},
      [width = width](const ModelOptions& options) { return build_unet(options, width); });
}

}  // namespace millrace::trainer::models
