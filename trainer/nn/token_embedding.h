// TokenEmbedding: a text's tokens as vectors, the first layer of a model of texts.
//
// Of token numbers (T), each a value of its own in the batch field, to (width, T, 1), as the layers
// of tokens take them. The weight is "<layer>.weight", (vocabulary, width), torch's nn.Embedding;
// values begin with deviation 0.02. Numbers are whole and below the vocabulary; others are the
// nearest that is. A bf16 batch field holds whole numbers to 256 exactly: numbers of a larger
// vocabulary are digits to the base 255, (digits * T), all texts' lowest ones first. The lowest one
// is a digit plus 1, and 0 where there is no token, which becomes a vector of zeros; so the first T
// values are a mask, too.
//
//   Value text = builder.input("text", {64});
//   Value x = builder.custom("embedding", std::make_shared<TokenEmbedding>(
//       TokenEmbeddingOptions{.vocabulary = 256, .width = 256}), {text});
//
// Threads: as CustomLayer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/nn/custom_layer.h"

namespace millrace::trainer::nn {

struct TokenEmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< token numbers are below it
  std::int64_t width = 0;       ///< of a token's vector
  int digits = 0;               ///< of a number; 0: it is a value itself
};

inline constexpr std::int64_t kTokenDigitBase = 255;
/// How many digits the numbers below `vocabulary` take, and the digit of that place, as the layer
/// joins them.
int token_digits(std::int64_t vocabulary);
std::int64_t token_digit(std::int64_t number, int place);

class TokenEmbedding final : public CustomLayer {
 public:
  /// Throws: InvalidArgument for sizes below 1.
  explicit TokenEmbedding(const TokenEmbeddingOptions& options);

  std::string_view kind() const override { return "token_embedding"; }
  Shape shape(std::span<const Shape> inputs) const override;
  std::optional<CustomParameter> weight(std::span<const Shape> inputs) const override;
  void forward(const CustomForward& pass) const override;
  /// Of the weight; token numbers have no gradient, and an input that wants one gets zeros.
  void backward(const CustomBackward& pass) const override;
  std::optional<hlo::LayerResults> stablehlo(const hlo::LayerArguments& at) const override;

 private:
  /// Of a sample's values; nullopt: there is none.
  std::optional<std::size_t> token_of(ConstValues sample, std::size_t at) const;
  std::int64_t values_of_token() const;

  TokenEmbeddingOptions options_;
};

}  // namespace millrace::trainer::nn
