#include "trainer/nn/logit_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/base/error.h"

namespace millrace::trainer::nn {
namespace {

constexpr float kLeastTemperature = 0.01F;

double product(ConstValues a, ConstValues b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double norm(ConstValues z) { return std::sqrt(product(z, z)); }

}  // namespace

LogitScale::LogitScale(const LogitScaleOptions& options) : options_(options) {
  require(options.temperature >= kLeastTemperature && options.temperature <= 1.0F,
          fmt::format("a learned temperature is from 0.01 to 1, not {:.6f}", options.temperature));
}

Shape LogitScale::shape(std::span<const Shape> inputs) const {
  const std::int64_t features = inputs.size() == 1 && inputs[0].size() == 1 ? inputs[0][0] : 0;
  require(features > 0 && options_.parts > 0 && features % options_.parts == 0,
          fmt::format("needs the features of {} embeddings of one size", options_.parts));
  return {features};
}

std::optional<CustomParameter> LogitScale::weight(std::span<const Shape> /*inputs*/) const {
  return CustomParameter{
      .shape = {1},
      .init = Init::kConstant,
      .decay = false,
      .value = -std::log(options_.temperature),
      .bounds = ParameterBounds{.least = 0, .most = -std::log(kLeastTemperature)}};
}

void LogitScale::forward(const CustomForward& pass) const {
  const double factor = std::exp(static_cast<double>(pass.weight[0]) / 2);
  const ConstValues all = pass.inputs[0];
  const std::size_t parts = static_cast<std::size_t>(pass.samples * options_.parts);
  const std::size_t width = all.size() / parts;
  for (std::size_t at = 0; at < all.size(); at += width) {
    const ConstValues z = all.subspan(at, width);
    const double by = factor / std::max(norm(z), kLeastEmbeddingNorm);
    for (std::size_t i = 0; i < width; ++i)
      pass.output[at + i] = static_cast<float>(by * static_cast<double>(z[i]));
  }
}

// With y = f u, u = z / |z| and f = exp(s / 2): ds = g y / 2, dz = f (g - (g u) u) / |z|.
void LogitScale::backward(const CustomBackward& pass) const {
  const double factor = std::exp(static_cast<double>(pass.weight[0]) / 2);
  const std::span<float> input_gradient = pass.input_gradients[0];
  const ConstValues all = pass.inputs[0];
  const std::size_t parts = static_cast<std::size_t>(pass.samples * options_.parts);
  const std::size_t width = all.size() / parts;
  double sum = 0;
  for (std::size_t at = 0; at < all.size(); at += width) {
    const ConstValues z = all.subspan(at, width);
    const ConstValues g = pass.output_gradient.subspan(at, width);
    const double length = norm(z);
    const bool has_direction = length >= kLeastEmbeddingNorm;
    const double along = has_direction ? product(g, z) / length : 0;
    sum += factor * along / 2;
    if (input_gradient.empty()) continue;
    const double by = has_direction ? factor / length : 0;
    const double of_z = has_direction ? along / length : 0;
    for (std::size_t i = 0; i < width; ++i)
      input_gradient[at + i] =
          static_cast<float>(by * (static_cast<double>(g[i]) - of_z * static_cast<double>(z[i])));
  }
  pass.weight_gradient[0] = static_cast<float>(sum);
}

Graph with_logit_scale(const Graph& graph, const LogitScaleOptions& options) {
  if (graph.outputs().size() != 1)
    throw Error(ErrorCode::kInvalidArgument,
                "a learned temperature needs a model with one output, of embeddings");
  GraphBuilder builder(graph);
  const GraphOutput& output = graph.outputs().front();
  builder.output(output.name, builder.custom("logit_scale", std::make_shared<LogitScale>(options),
                                             {output.value}));
  return builder.build();
}

}  // namespace millrace::trainer::nn
