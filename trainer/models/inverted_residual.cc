#include "trainer/models/detail/inverted_residual.h"

#include <algorithm>

namespace millrace::trainer::models {

using nn::GraphBuilder;
using nn::Value;

Value activate(GraphBuilder& builder, const std::string& name, Value x, Activate by) {
  switch (by) {
    case Activate::kNothing:
      return x;
    case Activate::kRelu:
      return builder.relu(name, x);
    case Activate::kHardSwish:
      return builder.hard_swish(name, x);
    case Activate::kSilu:
      return builder.silu(name, x);
    case Activate::kSigmoid:
      return builder.sigmoid(name, x);
    case Activate::kHardSigmoid:
      return builder.hard_sigmoid(name, x);
  }
  return x;
}

Value conv_unit(GraphBuilder& builder, const std::string& name, Value x, const ConvUnit& unit) {
  x = builder.conv2d(name + ".0", x,
                     {.channels = unit.channels,
                      .kernel = unit.kernel,
                      .stride = unit.stride,
                      .padding = unit.kernel / 2,
                      .groups = unit.groups,
                      .bias = false,
                      .init = nn::Init::kKaimingNormal});
  x = builder.batch_norm(name + ".1", x, unit.norm);
  return activate(builder, name + ".2", x, unit.activation);
}

Value squeeze_excite(GraphBuilder& builder, const std::string& name, Value x,
                     const SqueezeExcite& options) {
  const auto convolve = [&](const std::string& part, Value of, std::int64_t channels) {
    return builder.conv2d(name + part, of,
                          {.channels = channels,
                           .kernel = 1,
                           .init = nn::Init::kKaimingNormal,
                           .bias_init = nn::Init::kZeros});
  };
  Value gate = builder.adaptive_avg_pool2d(name + ".avgpool", x);
  gate = convolve(".fc1", gate, options.channels);
  gate = activate(builder, name + ".activation", gate, options.inner);
  gate = convolve(".fc2", gate, builder.shape(x)[0]);
  gate = activate(builder, name + ".scale_activation", gate, options.gate);
  return builder.scale(name, x, gate);
}

Value inverted_residual(GraphBuilder& builder, const std::string& name, Value x,
                        const InvertedResidual& options) {
  const std::int64_t in = builder.shape(x)[0];
  int part = 0;
  const auto next = [&] { return name + ".block." + std::to_string(part++); };
  ConvUnit unit{
      .channels = options.expanded, .activation = options.activation, .norm = options.norm};
  Value y = x;
  if (options.expanded != in) y = conv_unit(builder, next(), y, unit);
  unit.kernel = options.kernel;
  unit.stride = options.stride;
  unit.groups = options.expanded;
  y = conv_unit(builder, next(), y, unit);
  if (options.squeeze.channels > 0) y = squeeze_excite(builder, next(), y, options.squeeze);
  y = conv_unit(builder, next(), y, {.channels = options.channels, .norm = options.norm});
  if (options.stride != 1 || in != options.channels) return y;
  if (options.stochastic_depth > 0)
    y = builder.stochastic_depth(name + ".stochastic_depth", y, {options.stochastic_depth});
  return builder.add(name + ".add", y, x);
}

std::int64_t multiple_of_8(double channels) {
  const std::int64_t nearest =
      std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

}  // namespace millrace::trainer::models
