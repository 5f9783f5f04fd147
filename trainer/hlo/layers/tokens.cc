// An image's pixels as tokens, attention between them, and one of them.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

/// (N, T, 1, C) as (N, heads, T, C / heads), and back.
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  const Tensor apart = reshape(x, {x.shape[0], x.shape[1], heads, x.shape[3] / heads});
  return transpose(apart, {0, 2, 1, 3});
}
Tensor together(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.shape[0], x.shape[2], 1, x.shape[1] * x.shape[3]});
}

/// Query, key or value of (N, T, 1, 3 C).
Tensor third_of(const Tensor& x, std::int64_t index) {
  const std::int64_t channels = x.shape[3] / 3;
  return slice(x, 3, index * channels, (index + 1) * channels);
}

/// Scores with what is not seen far below all others: exp makes 0 of it.
Tensor seen_scores(const Tensor& scores, const nn::Attention& layer, const LayerArguments& at) {
  constexpr double kNoScore = -1e30;
  Builder& builder = at.builder();
  const Shape& shape = scores.shape;
  Tensor seen = scores;
  if (layer.causal) {
    const Tensor key = iota(builder, Type::kInt32, shape, 3);
    seen = select(compare(key, Order::kLessOrEqual, iota(builder, Type::kInt32, shape, 2)), seen,
                  kNoScore);
  }
  if (layer.masked == 0) return seen;
  const Tensor mask = slice(float32(at.inputs[1]), 1, 0, layer.masked);
  const Tensor first = splat(builder, 1.0, Type::kFloat32, {shape[0], shape[3] - layer.masked});
  const Tensor all = broadcast(concatenate({first, mask}, 1), shape, {0, 3});
  return select(compare(all, Order::kNotEqual, 0.0), seen, kNoScore);
}

/// A row's number at each of its places.
Tensor along_rows(const Tensor& rows, const Shape& shape) {
  return broadcast(rows, shape, {0, 1, 2});
}

}  // namespace

LayerResults layer(const nn::Tokens& /*layer*/, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const Shape image = x.shape;
  const std::int64_t pixels = image[1] * image[2];
  const Shape tokens = {image[0], 1 + pixels, 1, image[3]};
  const Tensor first = broadcast(reshape(*at.weight, {image[3]}), {image[0], 1, 1, image[3]}, {3});
  const Tensor joined = concatenate({first, reshape(x, {image[0], pixels, 1, image[3]})}, 1);
  const Tensor positions = reshape(*at.bias, {1 + pixels, image[3]});
  return {.output = joined + broadcast(positions, tokens, {1, 3}),
          .backward = [=](const Tensor& dy) {
            const Tensor rows = sum(dy, {0, 2});
            return LayerGradients{.inputs = {reshape(slice(dy, 1, 1, 1 + pixels), image)},
                                  .weight = reshape(slice(rows, 0, 0, 1), at.weight->shape),
                                  .bias = reshape(rows, at.bias->shape)};
          }};
}

LayerResults layer(const nn::Attention& layer, const LayerArguments& at) {
  const Tensor x = at.operand(at.inputs[0]);
  const auto part = [&](std::int64_t index) { return by_heads(third_of(x, index), layer.heads); };
  const Tensor query = part(0);
  const Tensor key = part(1);
  const Tensor value = part(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.shape[3]));
  const Tensor scores = seen_scores(scale * batch_dot(query, 3, key, 3), layer, at);
  const Tensor powers = exp(scores - along_rows(largest(scores, {3}), scores.shape));
  const Tensor shares = powers / along_rows(sum(powers, {3}), scores.shape);
  const Tensor factors = at.operand(shares);
  return {.output = together(batch_dot(factors, 3, value, 2)), .backward = [=](const Tensor& dy) {
            const Tensor outer = at.operand(by_heads(dy, layer.heads));
            const Tensor dshares = batch_dot(outer, 3, value, 3);
            const Tensor mean = along_rows(sum(dshares * shares, {3}), shares.shape);
            const Tensor dscores = at.operand(scale * (shares * (dshares - mean)));
            const Tensor dx = concatenate(
                {together(batch_dot(dscores, 3, key, 2)), together(batch_dot(dscores, 2, query, 2)),
                 together(batch_dot(factors, 2, outer, 2))},
                3);
            std::vector<std::optional<Tensor>> inputs(at.inputs.size());
            inputs[0] = dx;
            return LayerGradients{.inputs = std::move(inputs)};
          }};
}

LayerResults layer(const nn::TakeToken& layer, const LayerArguments& at) {
  const Shape shape = at.inputs[0].shape;
  const Tensor row = slice(at.inputs[0], 1, layer.index, layer.index + 1);
  return {.output = reshape(row, {shape[0], shape[3]}), .backward = [=](const Tensor& dy) {
            const Padding around = {.low = {0, layer.index, 0, 0},
                                    .high = {0, shape[1] - layer.index - 1, 0, 0},
                                    .interior = {0, 0, 0, 0}};
            return LayerGradients{.inputs = {pad(reshape(dy, {shape[0], 1, 1, shape[3]}), around)}};
          }};
}

}  // namespace millrace::trainer::hlo
