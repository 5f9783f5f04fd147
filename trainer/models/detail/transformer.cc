#include "trainer/models/detail/transformer.h"

#include <fmt/format.h>

#include "io/base/error.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Value;

// A linear layer of each token.
nn::Conv2d tokenwise(std::int64_t features) {
  return {.channels = features,
          .kernel = 1,
          .flat = true,
          .init = nn::Init::kNormal002,
          .bias_init = nn::Init::kZeros};
}

Value attended(GraphBuilder& builder, const std::string& name, Value x,
               const TransformerBlock& block) {
  nn::Attention attention = {.heads = block.heads, .causal = block.causal};
  if (!block.mask) return builder.attention(name, x, attention);
  attention.masked = block.mask->tokens;
  return builder.attention(name, x, attention, block.mask->value);
}

Value branch_added(GraphBuilder& builder, const std::string& name, Value x, Value branch,
                   float depth) {
  if (depth > 0) branch = builder.stochastic_depth(name + "_depth", branch, {depth});
  return builder.add(name + "_add", branch, x);
}

}  // namespace

// torchvision's numbers of a block's layers; mlp.1 and mlp.2 are its activation and dropout.
Value transformer_block(GraphBuilder& builder, const std::string& name, Value x,
                        const TransformerBlock& block) {
  nn::Conv2d entry = tokenwise(3 * block.width);
  entry.joins_names = true;
  Value y = builder.layer_norm(name + ".ln_1", x, kTransformerNorm);
  y = builder.conv2d(name + ".self_attention.in_proj", y, entry);
  y = attended(builder, name + ".self_attention", y, block);
  y = builder.conv2d(name + ".self_attention.out_proj", y, tokenwise(block.width));
  y = dropped(builder, name + ".dropout", y, block.dropout);
  x = branch_added(builder, name + ".self_attention", x, y, block.stochastic_depth);
  y = builder.layer_norm(name + ".ln_2", x, kTransformerNorm);
  y = builder.gelu(name + ".mlp.1", builder.conv2d(name + ".mlp.0", y, tokenwise(4 * block.width)));
  y = dropped(builder, name + ".mlp.2", y, block.dropout);
  y = builder.conv2d(name + ".mlp.3", y, tokenwise(block.width));
  y = dropped(builder, name + ".mlp.4", y, block.dropout);
  return branch_added(builder, name + ".mlp", x, y, block.stochastic_depth);
}

Value dropped(GraphBuilder& builder, const std::string& name, Value x, float probability) {
  return probability > 0 ? builder.dropout(name, x, {probability}) : x;
}

void check_heads(std::int64_t width, int heads) {
  require(heads > 0 && width % heads == 0,
          fmt::format("a width of {} cannot be shared by {} heads", width, heads));
}

}  // namespace millrace::trainer::models
