#include "trainer/nn/token_embedding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "io/base/error.h"

namespace millrace::trainer::nn {
namespace {

/// Of the output, (N, width, T), or of its gradient: one token's values are `length` apart.
std::size_t place_of(std::size_t sample, std::size_t token, std::size_t width, std::size_t length) {
  return sample * width * length + token;
}

}  // namespace

int token_digits(std::int64_t vocabulary) {
  int digits = 1;
  for (std::int64_t numbers = kTokenDigitBase; numbers < vocabulary; numbers *= kTokenDigitBase)
    ++digits;
  return digits;
}

std::int64_t token_digit(std::int64_t number, int place) {
  for (int i = 0; i < place; ++i) number /= kTokenDigitBase;
  return number % kTokenDigitBase + (place == 0 ? 1 : 0);
}

TokenEmbedding::TokenEmbedding(const TokenEmbeddingOptions& options) : options_(options) {
  require(options.vocabulary > 0 && options.width > 0,
          "an embedding has at least one token, and vectors of at least one value");
  require(options.digits >= 0 && options.digits <= token_digits(options.vocabulary),
          "digits are as many as the vocabulary takes");
}

std::int64_t TokenEmbedding::values_of_token() const { return std::max(options_.digits, 1); }

Shape TokenEmbedding::shape(std::span<const Shape> inputs) const {
  require(inputs.size() == 1 && inputs[0].size() == 1 && inputs[0][0] % values_of_token() == 0,
          "needs the numbers of a text's tokens (T)");
  return {options_.width, inputs[0][0] / values_of_token(), 1};
}

std::optional<CustomParameter> TokenEmbedding::weight(std::span<const Shape> /*inputs*/) const {
  return CustomParameter{.shape = {options_.vocabulary, options_.width}, .init = Init::kNormal002};
}

std::optional<std::size_t> TokenEmbedding::token_of(ConstValues sample, std::size_t at) const {
  const auto last = static_cast<float>(options_.vocabulary - 1);
  const std::size_t length = sample.size() / static_cast<std::size_t>(values_of_token());
  if (options_.digits > 0 && sample[at] == 0.0F) return {};
  float number = 0;
  for (std::size_t place = sample.size() - length + at; place > at; place -= length)
    number = (number + sample[place]) * static_cast<float>(kTokenDigitBase);
  number += sample[at] - (options_.digits > 0 ? 1.0F : 0.0F);
  return std::isfinite(number) ? static_cast<std::size_t>(std::clamp(number, 0.0F, last)) : 0;
}

void TokenEmbedding::forward(const CustomForward& pass) const {
  const auto width = static_cast<std::size_t>(options_.width);
  const auto samples = static_cast<std::size_t>(pass.samples);
  const std::size_t values = pass.inputs[0].size() / samples;
  const std::size_t length = values / static_cast<std::size_t>(values_of_token());
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t at = 0; at < length; ++at) {
      const auto token = token_of(pass.inputs[0].subspan(n * values, values), at);
      float* to = pass.output.data() + place_of(n, at, width, length);
      const float* vector = token ? pass.weight.data() + *token * width : nullptr;
      for (std::size_t i = 0; i < width; ++i) to[i * length] = token ? vector[i] : 0.0F;
    }
}

void TokenEmbedding::backward(const CustomBackward& pass) const {
  const auto width = static_cast<std::size_t>(options_.width);
  const auto samples = static_cast<std::size_t>(pass.samples);
  const std::size_t values = pass.inputs[0].size() / samples;
  const std::size_t length = values / static_cast<std::size_t>(values_of_token());
  std::ranges::fill(pass.weight_gradient, 0.0F);
  std::ranges::fill(pass.input_gradients[0], 0.0F);
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t at = 0; at < length; ++at) {
      const auto token = token_of(pass.inputs[0].subspan(n * values, values), at);
      if (!token) continue;
      float* vector = pass.weight_gradient.data() + *token * width;
      const float* from = pass.output_gradient.data() + place_of(n, at, width, length);
      for (std::size_t i = 0; i < width; ++i) vector[i] += from[i * length];
    }
}

}  // namespace millrace::trainer::nn
