// A transformer of texts beside a model of pictures: the two towers of CLIP, as one graph with two
// inputs and one output, each sample's two embeddings side by side, image before text.
//
//   const nn::Graph image = build_model("resnet18", {.num_classes = 128, .image = 32});
//   const nn::Graph both = models::with_text_tower(image, {.length = 32, .features = 128});
//   LossObjective objective({.inputs = {"image", "text"},
//                            .heads = {{.loss = losses::Clip{}, .target = "sample"}}});
//
// A text is its tokens' numbers, "text", (length), of the pictures' type, or (digits * length), as
// nn::TokenEmbedding joins them. With `masked`, nothing attends to tokens whose first value is 0;
// else what is behind a text is a token like others. A class token's features are the text's, or
// those of its last token, after as many blocks as `depth` and a linear layer without bias,
// "text.projection". The image's layers keep their names, so that weights of a classifier start
// them.
//
// Source: Radford and others, "Learning transferable visual models from natural language
// supervision" (2021), whose text tower reads the last token of a causal one: .pool = kEnd,
// .causal = true.
//
// Threads: as values.
#pragma once

#include <cstdint>

#include "io/component/value_type.h"
#include "trainer/nn/graph.h"

namespace millrace::trainer::models {

/// Whose features are a text's: the class token's, or the last token's of the text, at which
/// tokenizers for CLIP put one that ends it. A text without tokens has the class token's.
enum class TextPool { kClass, kEnd };
const ValueType& value_type(const TextPool& pool);

struct TextTower {
  std::int64_t length = 64;       ///< tokens
  std::int64_t vocabulary = 256;  ///< token numbers are below it
  int digits = 0;                 ///< of a token's number; 0: it is a value itself
  bool masked = false;
  bool causal = false;  ///< a token attends to itself and to those before it; with kEnd
  TextPool pool = TextPool::kClass;
  std::int64_t width = 256;     ///< of a token
  int depth = 4;                ///< blocks
  int heads = 4;                ///< which share a token's width equally
  std::int64_t features = 128;  ///< of the embedding, as many as the image's

  /// Of the input "text".
  std::int64_t num_values() const { return length * (digits > 0 ? digits : 1); }
};

/// Throws: InvalidArgument for a graph of more than one input or output, or whose output is not
/// `features` values; for heads that cannot share the width; for a class token that would see
/// no other, of a causal tower.
nn::Graph with_text_tower(const nn::Graph& image, const TextTower& text);

}  // namespace millrace::trainer::models
