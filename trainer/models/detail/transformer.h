// The blocks that transformers of pictures and of texts are built of, before attention a layer
// norm: torchvision's EncoderBlock, with its names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/nn/graph.h"

namespace millrace::trainer::models {

inline constexpr nn::LayerNorm kTransformerNorm = {.epsilon = 1e-6F};

/// Of the last so many tokens: nn::Attention's.
struct TokenMask {
  nn::Value value;
  std::int64_t tokens = 0;
};

struct TransformerBlock {
  std::int64_t width = 0;  ///< of a token; the hidden layer has four times as many
  int heads = 1;           ///< which share the width equally
  bool causal = false;     ///< nn::Attention's
  float dropout = 0.0F;
  float stochastic_depth = 0.0F;
  std::optional<TokenMask> mask = {};
};

/// Of tokens (width, T, 1), to as many. Weights begin with deviation 0.02, biases with 0.
nn::Value transformer_block(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                            const TransformerBlock& block);
/// A dropout layer, if there is anything to drop.
nn::Value dropped(nn::GraphBuilder& builder, const std::string& name, nn::Value x,
                  float probability);
/// Throws: InvalidArgument for heads that cannot share the width.
void check_heads(std::int64_t width, int heads);

}  // namespace millrace::trainer::models
