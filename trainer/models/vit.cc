#include "trainer/models/vit.h"

#include <fmt/format.h>

#include <string>

#include "io/base/error.h"
#include "trainer/models/detail/transformer.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

void check(const VitShape& net, const nn::Extent2d& image) {
  require(image.height % net.patch == 0 && image.width % net.patch == 0,
          fmt::format("a vision transformer's images are whole patches of {} pixels, not {} x {}",
                      net.patch, image.height, image.width));
  check_heads(net.width, net.heads);
}

nn::Graph build_vit(const ModelOptions& options, const VitShape& net) {
  check(net, options.image);
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = builder.conv2d("conv_proj", x,
                     {.channels = net.width,
                      .kernel = net.patch,
                      .stride = net.patch,
                      .init = nn::Init::kNormal002,
                      .bias_init = nn::Init::kZeros});
  x = builder.tokens("class_token", x, {.positions = "encoder.pos_embedding"});
  x = dropped(builder, "encoder.dropout", x, net.dropout);
  for (int i = 0; i < net.depth; ++i) {
    const float share =
        net.depth > 1 ? static_cast<float>(i) / static_cast<float>(net.depth - 1) : 1.0F;
    x = transformer_block(builder, fmt::format("encoder.layers.encoder_layer_{}", i), x,
                          {.width = net.width,
                           .heads = net.heads,
                           .dropout = net.dropout,
                           .stochastic_depth = net.stochastic_depth * share});
  }
  // The norm is of each token: of the class token alone it is the same.
  x = builder.layer_norm("encoder.ln", builder.take_token("encoder.class", x), kTransformerNorm);
  builder.output("logits", builder.linear("heads.head", x,
                                          {.features = options.num_classes,
                                           .init = nn::Init::kNormal002,
                                           .bias_init = nn::Init::kZeros}));
  return builder.build();
}

std::unique_ptr<Architecture> make_vit(const VitShape& net) {
  return make_architecture({.multiple_of = net.patch},
                           [net](const ModelOptions& options) { return build_vit(options, net); });
}

}  // namespace

void VitShape::fields(FieldList& field) {
  field("patch", patch, {.min = 1}, "Pixels of a patch, height and width");
  field("width", width, {.min = 1}, "Features of a token");
  field("depth", depth, {.min = 1}, "Blocks");
  field("heads", heads, {.min = 1}, "Heads of each attention");
  field("dropout", dropout, {.min = 0, .max = 1, .open_max = true}, "Share of values set to 0");
  field("stochastic_depth", stochastic_depth, {.min = 0, .max = 1, .open_max = true},
        "Share of the samples that skip the last block; the blocks before it rise to that");
}

const ComponentName VitS16::kName = {"vit_s_16", "VitS16",
                                     "ViT-S/16: transformer of 16 x 16 patches, 384 features"};
const ComponentName VitB16::kName = {"vit_b_16", "VitB16",
                                     "ViT-B/16: transformer of 16 x 16 patches, 768 features"};

std::unique_ptr<Architecture> VitS16::make() const { return make_vit(shape); }
std::unique_ptr<Architecture> VitB16::make() const { return make_vit(shape); }

}  // namespace millrace::trainer::models
