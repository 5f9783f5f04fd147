#include "trainer/nn/last_token.h"

#include <algorithm>

#include "io/base/error.h"

namespace millrace::trainer::nn {
namespace {

/// (N, C, T): where a sample's features of a token begin, `tokens` apart.
struct TokenGrid {
  std::size_t channels, tokens, numbers;

  explicit TokenGrid(std::span<const ConstValues> inputs, std::size_t features,
                     std::int64_t samples)
      : channels(features / static_cast<std::size_t>(samples)),
        tokens(inputs[0].size() / features),
        numbers(inputs[1].size() / static_cast<std::size_t>(samples)) {}
  std::size_t begin(std::size_t sample) const { return sample * channels * tokens; }
};

}  // namespace

Shape LastToken::shape(std::span<const Shape> inputs) const {
  require(inputs.size() == 2 && inputs[0].size() == 3 && inputs[0][2] == 1 &&
              inputs[1].size() == 1 && options_.tokens > 0 && options_.tokens <= inputs[0][1] &&
              options_.tokens <= inputs[1][0],
          "needs tokens (C, T, 1), and the numbers of the last of them");
  return {inputs[0][0]};
}

std::size_t LastToken::place_of_last(ConstValues numbers, std::size_t tokens) const {
  const auto counted = static_cast<std::size_t>(options_.tokens);
  std::size_t last = counted;
  while (last > 0 && numbers[last - 1] == 0.0F) --last;
  const std::size_t before = tokens - counted;
  return std::max(before + last, std::size_t{1}) - 1;
}

void LastToken::forward(const CustomForward& pass) const {
  const TokenGrid grid(pass.inputs, pass.output.size(), pass.samples);
  for (std::size_t n = 0; n < static_cast<std::size_t>(pass.samples); ++n) {
    const std::size_t at =
        place_of_last(pass.inputs[1].subspan(n * grid.numbers, grid.numbers), grid.tokens);
    for (std::size_t c = 0; c < grid.channels; ++c)
      pass.output[n * grid.channels + c] = pass.inputs[0][grid.begin(n) + c * grid.tokens + at];
  }
}

void LastToken::backward(const CustomBackward& pass) const {
  const TokenGrid grid(pass.inputs, pass.output_gradient.size(), pass.samples);
  for (const std::span<float> gradient : pass.input_gradients) std::ranges::fill(gradient, 0.0F);
  if (pass.input_gradients[0].empty()) return;
  for (std::size_t n = 0; n < static_cast<std::size_t>(pass.samples); ++n) {
    const std::size_t at =
        place_of_last(pass.inputs[1].subspan(n * grid.numbers, grid.numbers), grid.tokens);
    for (std::size_t c = 0; c < grid.channels; ++c)
      pass.input_gradients[0][grid.begin(n) + c * grid.tokens + at] =
          pass.output_gradient[n * grid.channels + c];
  }
}

}  // namespace millrace::trainer::nn
