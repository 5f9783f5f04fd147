#include "trainer/models/vit.h"

#include <fmt/format.h>

#include <string>

#include "io/base/error.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

constexpr nn::LayerNorm kVitNorm = {.epsilon = 1e-6F};

// A linear layer of each token.
nn::Conv2d tokenwise(std::int64_t features) {
  return {.channels = features,
          .kernel = 1,
          .flat = true,
          .init = nn::Init::kNormal002,
          .bias_init = nn::Init::kZeros};
}

Value dropped(GraphBuilder& builder, const std::string& name, Value x, float probability) {
  return probability > 0 ? builder.dropout(name, x, {probability}) : x;
}

Value branch_added(GraphBuilder& builder, const std::string& name, Value x, Value branch,
                   float depth) {
  if (depth > 0) branch = builder.stochastic_depth(name + "_depth", branch, {depth});
  return builder.add(name + "_add", branch, x);
}

// torchvision's numbers of a block's layers; mlp.1 and mlp.2 are its activation and dropout.
Value vit_block(GraphBuilder& builder, const std::string& name, Value x, const VitShape& net,
                float depth) {
  nn::Conv2d entry = tokenwise(3 * net.width);
  entry.joins_names = true;
  Value y = builder.layer_norm(name + ".ln_1", x, kVitNorm);
  y = builder.conv2d(name + ".self_attention.in_proj", y, entry);
  y = builder.attention(name + ".self_attention", y, {.heads = net.heads});
  y = builder.conv2d(name + ".self_attention.out_proj", y, tokenwise(net.width));
  y = dropped(builder, name + ".dropout", y, net.dropout);
  x = branch_added(builder, name + ".self_attention", x, y, depth);
  y = builder.layer_norm(name + ".ln_2", x, kVitNorm);
  y = builder.gelu(name + ".mlp.1",
                   builder.conv2d(name + ".mlp.0", y, tokenwise(4 * std::int64_t{net.width})));
  y = dropped(builder, name + ".mlp.2", y, net.dropout);
  y = builder.conv2d(name + ".mlp.3", y, tokenwise(net.width));
  y = dropped(builder, name + ".mlp.4", y, net.dropout);
  return branch_added(builder, name + ".mlp", x, y, depth);
}

void check(const VitShape& net, const nn::Extent2d& image) {
  require(image.height % net.patch == 0 && image.width % net.patch == 0,
          fmt::format("a vision transformer's images are whole patches of {} pixels, not {} x {}",
                      net.patch, image.height, image.width));
  require(net.width % net.heads == 0,
          fmt::format("a width of {} cannot be shared by {} heads", net.width, net.heads));
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
    x = vit_block(builder, fmt::format("encoder.layers.encoder_layer_{}", i), x, net,
                  net.stochastic_depth * share);
  }
  // The norm is of each token: of the class token alone it is the same.
  x = builder.layer_norm("encoder.ln", builder.take_token("encoder.class", x), kVitNorm);
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
