#include "trainer/models/text_tower.h"

#include <fmt/format.h>

#include <memory>

#include "io/base/error.h"
#include "trainer/models/detail/transformer.h"
#include "trainer/nn/last_token.h"
#include "trainer/nn/token_embedding.h"

namespace millrace::trainer::models {
namespace {

void check_towers(const nn::Graph& image, const TextTower& text) {
  require(image.inputs().size() == 1 && image.outputs().size() == 1,
          "a tower of texts stands beside a model with one input and one output");
  const nn::Shape& shape = image.node(image.outputs().front().value).shape;
  require(shape == nn::Shape{text.features},
          fmt::format("the image's embedding is {}, the text's has {} features",
                      nn::shape_text(shape), text.features));
  require(text.length > 0 && text.depth > 0, "a text has a token at least, its tower a block");
  require(!text.causal || text.pool == TextPool::kEnd,
          "a causal tower of texts pools their end: its class token sees no other");
  check_heads(text.width, text.heads);
}

nn::Value pooled(nn::GraphBuilder& builder, const TextTower& text, nn::Value x, nn::Value tokens) {
  if (text.pool == TextPool::kClass) return builder.take_token("text.class", x);
  return builder.custom(
      "text.last", std::make_shared<nn::LastToken>(nn::LastTokenOptions{.tokens = text.length}),
      {x, tokens});
}

nn::Value text_features(nn::GraphBuilder& builder, const TextTower& text) {
  const nn::Value tokens = builder.input("text", {text.num_values()});
  nn::Value x = builder.custom(
      "text.embedding",
      std::make_shared<nn::TokenEmbedding>(nn::TokenEmbeddingOptions{
          .vocabulary = text.vocabulary, .width = text.width, .digits = text.digits}),
      {tokens});
  x = builder.tokens("text.class_token", x, {.positions = "text.positions"});
  TransformerBlock block = {.width = text.width, .heads = text.heads, .causal = text.causal};
  if (text.masked) block.mask = TokenMask{.value = tokens, .tokens = text.length};
  for (int i = 0; i < text.depth; ++i)
    x = transformer_block(builder, fmt::format("text.layers.{}", i), x, block);
  x = builder.layer_norm("text.ln", pooled(builder, text, x, tokens), kTransformerNorm);
  return builder.linear("text.projection", x,
                        {.features = text.features, .bias = false, .init = nn::Init::kNormal002});
}

}  // namespace

const ValueType& value_type(const TextPool& /*pool*/) {
  static const EnumType<TextPool> type({{"class", TextPool::kClass}, {"end", TextPool::kEnd}});
  return type;
}

nn::Graph with_text_tower(const nn::Graph& image, const TextTower& text) {
  check_towers(image, text);
  nn::GraphBuilder builder(image);
  const nn::Value features = text_features(builder, text);
  builder.output("embeddings", builder.concat("both", {image.outputs().front().value, features}));
  return builder.build();
}

}  // namespace millrace::trainer::models
