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
// else what is behind a text is a token like others. A class token's features are the text's, after
// as many blocks as `depth` and a linear layer without bias, "text.projection". The image's layers
// keep their names, so that weights of a classifier start them.
//
// Source: Radford and others, "Learning transferable visual models from natural language
// supervision" (2021), whose text tower reads the last token of a causal one.
//
// Threads: as values.
#pragma once

#include <cstdint>

#include "trainer/nn/graph.h"

namespace millrace::trainer::models {

struct TextTower {
  std::int64_t length = 64;       ///< tokens
  std::int64_t vocabulary = 256;  ///< token numbers are below it
  int digits = 0;                 ///< of a token's number; 0: it is a value itself
  bool masked = false;
  std::int64_t width = 256;     ///< of a token
  int depth = 4;                ///< blocks
  int heads = 4;                ///< which share a token's width equally
  std::int64_t features = 128;  ///< of the embedding, as many as the image's

  /// Of the input "text".
  std::int64_t num_values() const { return length * (digits > 0 ? digits : 1); }
};

/// Throws: InvalidArgument for a graph of more than one input or output, or whose output is not
/// `features` values; for heads that cannot share the width.
nn::Graph with_text_tower(const nn::Graph& image, const TextTower& text);

}  // namespace millrace::trainer::models
