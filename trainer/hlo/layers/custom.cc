// Layers of a program's own, and those of nn/ that are such layers: the embeddings of tokens, a
// text's last token, and a contrastive loss's scale.
#include <algorithm>
#include <optional>

#include "io/base/error.h"
#include "trainer/hlo/layers/layers.h"
#include "trainer/nn/custom_layer.h"
#include "trainer/nn/last_token.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/nn/token_embedding.h"

namespace millrace::trainer {
namespace hlo {
namespace {

/// (N, digits * T) as a number of each token, (N, T), and whether there is one.
struct TokenNumbers {
  Tensor numbers;
  std::optional<Tensor> present = {};
};

TokenNumbers token_numbers(const Tensor& values, const nn::TokenEmbeddingOptions& of) {
  const std::int64_t digits = std::max(of.digits, 1);
  const std::int64_t length = values.shape[1] / digits;
  const auto digit = [&](std::int64_t place) {
    return slice(values, 1, place * length, (place + 1) * length);
  };
  if (of.digits == 0) return {digit(0)};
  Tensor number = digit(digits - 1);
  for (std::int64_t place = digits - 2; place >= 0; --place)
    number = number * static_cast<double>(nn::kTokenDigitBase) + digit(place);
  return {number - 1.0, compare(digit(0), Order::kNotEqual, 0.0)};
}

/// Flags (N, T, 1, C) of each sample's last token.
Tensor is_last_token(const Tensor& x, const Tensor& numbers, std::int64_t tokens) {
  Builder& builder = *x.builder;
  const Shape counted = {x.shape[0], tokens};
  const double before = static_cast<double>(x.shape[1] - tokens);
  const Tensor place = iota(builder, Type::kFloat32, counted, 1) + before;
  const Tensor present = compare(slice(numbers, 1, 0, tokens), Order::kNotEqual, 0.0);
  const Tensor last = largest(select(present, place, std::max(before - 1, 0.0)), {1});
  return compare(iota(builder, Type::kFloat32, x.shape, 1), Order::kEqual,
                 broadcast(last, x.shape, {0}));
}

}  // namespace

LayerResults layer(const nn::Custom& layer, const LayerArguments& at) {
  auto results = layer.layer->stablehlo(at);
  if (results) return *std::move(results);
  throw Error(ErrorCode::kUnsupported, "layer " + at.node.name + ": " +
                                           std::string(layer.layer->kind()) + " has no StableHLO");
}

}  // namespace hlo

namespace nn {

std::optional<hlo::LayerResults> CustomLayer::stablehlo(const hlo::LayerArguments& /*at*/) const {
  return {};
}

std::optional<hlo::LayerResults> TokenEmbedding::stablehlo(const hlo::LayerArguments& at) const {
  const auto [numbers, present] = hlo::token_numbers(hlo::float32(at.inputs[0]), options_);
  const std::int64_t samples = numbers.shape[0], length = numbers.shape[1];
  const hlo::Shape shape = {samples, length, 1, options_.width};
  const auto last = static_cast<double>(options_.vocabulary - 1);
  const hlo::Tensor rows = hlo::reshape(
      hlo::convert(hlo::min(hlo::max(numbers, 0.0), last), hlo::Type::kInt32), {samples * length});
  const auto counted = [=, present = present](const hlo::Tensor& x) {
    return present ? hlo::select(hlo::broadcast(*present, shape, {0, 1}), x, 0.0) : x;
  };
  const hlo::Tensor table = hlo::float32(at.operand(*at.weight));
  return hlo::LayerResults{
      .output = counted(hlo::reshape(hlo::take_rows(table, rows), shape)),
      .backward = [=](const hlo::Tensor& dy) {
        const hlo::Tensor flat = hlo::reshape(counted(dy), {samples * length, shape[3]});
        return hlo::LayerGradients{.inputs = {std::nullopt},
                                   .weight = hlo::sum_to_rows(flat, rows, table.shape[0])};
      }};
}

std::optional<hlo::LayerResults> LastToken::stablehlo(const hlo::LayerArguments& at) const {
  const hlo::Tensor& x = at.inputs[0];
  const hlo::Tensor is_last = hlo::is_last_token(x, hlo::float32(at.inputs[1]), options_.tokens);
  return hlo::LayerResults{
      .output = hlo::sum(hlo::select(is_last, x, 0.0), {1, 2}),
      .backward = [=](const hlo::Tensor& dy) {
        const hlo::Tensor all = hlo::broadcast(dy, is_last.shape, {0, 3});
        return hlo::LayerGradients{.inputs = {hlo::select(is_last, all, 0.0), std::nullopt}};
      }};
}

// The formulas of logit_scale.cc.
std::optional<hlo::LayerResults> LogitScale::stablehlo(const hlo::LayerArguments& at) const {
  const hlo::Tensor x = hlo::float32(at.inputs[0]);
  const hlo::Shape parts = {x.shape[0], options_.parts, x.shape[1] / options_.parts};
  const hlo::Tensor z = hlo::reshape(x, parts);
  const hlo::Tensor length = hlo::sqrt(hlo::sum(z * z, {2}));
  const hlo::Tensor divisor = hlo::max(length, kLeastEmbeddingNorm);
  const hlo::Tensor unit = z / hlo::broadcast(divisor, parts, {0, 1});
  const hlo::Tensor factor = hlo::exp(hlo::reshape(*at.weight, {}) * 0.5);
  const auto times = [](const hlo::Tensor& a, const hlo::Tensor& by) {
    return a * hlo::broadcast(by, a.shape, {});
  };
  return hlo::LayerResults{
      .output = hlo::reshape(times(unit, factor), x.shape), .backward = [=](const hlo::Tensor& dy) {
        const hlo::Tensor g = hlo::reshape(dy, parts);
        const hlo::Tensor has_direction =
            hlo::compare(length, hlo::Order::kGreaterOrEqual, kLeastEmbeddingNorm);
        const hlo::Tensor along = hlo::select(has_direction, hlo::sum(g * unit, {2}), 0.0);
        const hlo::Tensor across = (g - hlo::broadcast(along, parts, {0, 1}) * unit) /
                                   hlo::broadcast(divisor, parts, {0, 1});
        const hlo::Tensor dz =
            hlo::select(hlo::broadcast(has_direction, parts, {0, 1}), times(across, factor), 0.0);
        return hlo::LayerGradients{
            .inputs = {hlo::reshape(dz, x.shape)},
            .weight = hlo::reshape(hlo::sum(along, {0, 1}) * factor * 0.5, at.weight->shape)};
      }};
}

}  // namespace nn
}  // namespace millrace::trainer
