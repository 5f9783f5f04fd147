#include "trainer/nn/token_embedding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "io/base/error.h"

namespace millrace::trainer::nn {

TokenEmbedding::TokenEmbedding(const TokenEmbeddingOptions& options) : options_(options) {
  require(options.vocabulary > 0 && options.width > 0,
          "an embedding has at least one token, and vectors of at least one value");
}

Shape TokenEmbedding::shape(std::span<const Shape> inputs) const {
  require(inputs.size() == 1 && inputs[0].size() == 1, "needs the numbers of a text's tokens (T)");
  return {options_.width, inputs[0][0], 1};
}

std::optional<CustomParameter> TokenEmbedding::weight(std::span<const Shape> /*inputs*/) const {
  return CustomParameter{.shape = {options_.vocabulary, options_.width}, .init = Init::kNormal002};
}

std::size_t TokenEmbedding::token_of(float value) const {
  const auto last = static_cast<float>(options_.vocabulary - 1);
  return std::isfinite(value) ? static_cast<std::size_t>(std::clamp(value, 0.0F, last)) : 0;
}

void TokenEmbedding::forward(const CustomForward& pass) const {
  const ConstValues tokens = pass.inputs[0];
  const auto width = static_cast<std::size_t>(options_.width);
  const std::size_t length = tokens.size() / static_cast<std::size_t>(pass.samples);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const ConstValues vector = pass.weight.subspan(token_of(tokens[at]) * width, width);
    float* to = pass.output.data() + at / length * width * length + at % length;
    for (std::size_t i = 0; i < width; ++i) to[i * length] = vector[i];
  }
}

void TokenEmbedding::backward(const CustomBackward& pass) const {
  const ConstValues tokens = pass.inputs[0];
  const auto width = static_cast<std::size_t>(options_.width);
  const std::size_t length = tokens.size() / static_cast<std::size_t>(pass.samples);
  std::ranges::fill(pass.weight_gradient, 0.0F);
  std::ranges::fill(pass.input_gradients[0], 0.0F);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::span<float> vector =
        pass.weight_gradient.subspan(token_of(tokens[at]) * width, width);
    const float* from = pass.output_gradient.data() + at / length * width * length + at % length;
    for (std::size_t i = 0; i < width; ++i) vector[i] += from[i * length];
  }
}

}  // namespace millrace::trainer::nn
