// LastToken: the features of a text's last token, as CLIP's text tower takes those of the token
// that ends a text.
//
// Of tokens (C, T, 1) and the graph's input of their numbers, whose first `tokens` values are of
// the last `tokens` of them, as nn::Attention's mask: to (C), of the last one whose value is not 0.
// A text without any has the token before them, or the first one.
//
//   x = builder.custom("text.last", std::make_shared<LastToken>(LastTokenOptions{.tokens = 77}),
//                      {x, numbers});
//
// Threads: as CustomLayer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/nn/custom_layer.h"

namespace millrace::trainer::nn {

struct LastTokenOptions {
  std::int64_t tokens = 0;
};

class LastToken final : public CustomLayer {
 public:
  explicit LastToken(const LastTokenOptions& options) : options_(options) {}

  std::string_view kind() const override { return "last_token"; }
  Shape shape(std::span<const Shape> inputs) const override;
  void forward(const CustomForward& pass) const override;
  void backward(const CustomBackward& pass) const override;
  std::optional<hlo::LayerResults> stablehlo(const hlo::LayerArguments& at) const override;

 private:
  /// Among all of the sample's tokens.
  std::size_t place_of_last(ConstValues numbers, std::size_t tokens) const;

  LastTokenOptions options_;
};

}  // namespace millrace::trainer::nn
