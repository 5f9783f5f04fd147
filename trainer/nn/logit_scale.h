// LogitScale: the learned temperature of a contrastive loss, as a model's last layer.
//
// Embeddings z become exp(s / 2) z / |z|, so that the product of two of them is their cosine times
// exp(s): the logits of losses that are `learned` (trainer/loss/info_nce.h, clip.h).
// s is "<layer>.weight", (1): ln(1 / temperature) at first, without weight decay, and between 0 and
// ln 100 after every step.
//
//   Value x = builder.concat("both", {image, text});            // each (F)
//   builder.output("embeddings", builder.custom(
//       "logit_scale", std::make_shared<LogitScale>(LogitScaleOptions{.parts = 2}), {x}));
//
// Source: Radford and others, "Learning transferable visual models from natural language
// supervision" (2021); OpenCLIP's logit_scale.
//
// Threads: as CustomLayer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/nn/custom_layer.h"
#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// Shorter embeddings have no direction.
inline constexpr double kLeastEmbeddingNorm = 1e-12;

struct LogitScaleOptions {
  float temperature = 0.07F;  ///< at first; from 0.01 to 1
  int parts = 1;              ///< embeddings side by side, each of length 1 before it is scaled
};

/// Of features (parts * F), to as many.
class LogitScale final : public CustomLayer {
 public:
  /// Throws: InvalidArgument for a temperature out of range.
  explicit LogitScale(const LogitScaleOptions& options = {});

  std::string_view kind() const override { return "logit_scale"; }
  Shape shape(std::span<const Shape> inputs) const override;
  std::optional<CustomParameter> weight(std::span<const Shape> inputs) const override;
  void forward(const CustomForward& pass) const override;
  void backward(const CustomBackward& pass) const override;
  std::optional<hlo::LayerResults> stablehlo(const hlo::LayerArguments& at) const override;

 private:
  LogitScaleOptions options_;
};

/// `graph` with this layer, "logit_scale", behind its only output. Throws: InvalidArgument for
/// outputs that are no features, or several.
Graph with_logit_scale(const Graph& graph, const LogitScaleOptions& options);

}  // namespace millrace::trainer::nn
