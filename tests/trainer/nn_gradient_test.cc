// Every op's backward pass against finite differences, in float32. A first convolution makes the
// gradient of the op's input visible as a gradient of weights.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "tests/trainer/nn_support.h"

namespace millrace::trainer::nn {
namespace {

using Build = std::function<Value(GraphBuilder&, Value)>;

struct Case {
  std::string name;
  Build build;
};

Graph graph_with(const Build& op) {
  GraphBuilder builder;
  Value x = builder.input("image", {2, 6, 5});
  x = builder.conv2d("first", x, {.channels = 5, .kernel = 3, .padding = 1});
  builder.output("result", op(builder, x));
  return builder.build();
}

// The checked function: a fixed random weighting of the outputs.
double weighted(Network& network, const std::vector<float>& image, const std::vector<float>& by) {
  const OutputView view = network.forward({image});
  double sum = 0;
  for (std::size_t i = 0; i < by.size(); ++i) {
    sum += static_cast<double>(view.data[i]) * static_cast<double>(by[i]);
  }
  return sum;
}

void check_gradients(const Case& checked) {
  constexpr std::int64_t kBatch = 3;
  Network network(graph_with(checked.build), {.batch_size = kBatch}, 7);
  const auto image = random_values(kBatch * 2 * 6 * 5, 1);
  const std::size_t outputs = network.forward({image}).data.size();
  const auto by = random_values(outputs, 2);
  network.backward(by);
  const std::vector<float> gradients(network.gradients().begin(), network.gradients().end());
  std::vector<float> analytic;
  std::vector<float> numeric;
  for (const Parameter& entry : network.graph().parameters().entries()) {
    for (std::size_t k = 0; k < entry.size; k += 1 + entry.size / 12) {
      float& w = network.parameters()[entry.offset + k];
      const float kept = w;
      constexpr float kStep = 2.5e-4F;
      w = kept + kStep;
      const double above = weighted(network, image, by);
      w = kept - kStep;
      const double below = weighted(network, image, by);
      w = kept;
      numeric.push_back(static_cast<float>((above - below) / (2.0 * static_cast<double>(kStep))));
      analytic.push_back(gradients[entry.offset + k]);
    }
  }
  EXPECT_LT(relative_error(analytic, numeric), 2e-2) << checked.name;
}

void PrintTo(const Case& printed, std::ostream* out) { *out << printed.name; }

class OpGradient : public ::testing::TestWithParam<Case> {};

TEST_P(OpGradient, AgreesWithFiniteDifferences) { check_gradients(GetParam()); }

std::vector<Case> cases() {
  return {
      {"conv2d",
       [](GraphBuilder& b, Value x) {
         return b.conv2d("op", x, {.channels = 7, .kernel = 3, .stride = 2, .padding = 1});
       }},
      {"conv2d_dilated",
       [](GraphBuilder& b, Value x) {
         return b.conv2d("op", x, {.channels = 3, .kernel = {3, 2}, .dilation = 2});
       }},
      {"conv2d_relu",
       [](GraphBuilder& b, Value x) {
         return b.relu("relu", b.conv2d("op", x, {.channels = 7, .kernel = 1}));
       }},
      {"batch_norm", [](GraphBuilder& b, Value x) { return b.batch_norm("op", x); }},
      {"batch_norm_relu",
       [](GraphBuilder& b, Value x) { return b.relu("relu", b.batch_norm("op", x)); }},
      {"batch_norm_add",
       [](GraphBuilder& b, Value x) { return b.add("sum", b.batch_norm("op", x), x); }},
      {"batch_norm_add_relu",
       [](GraphBuilder& b, Value x) {
         return b.relu("relu", b.add("sum", b.batch_norm("op", x), x));
       }},
      {"two_users_of_batch_norm",
       [](GraphBuilder& b, Value x) {
         const Value y = b.relu("relu", b.batch_norm("op", x));
         const Value z = b.relu("relu2", b.batch_norm("op2", y));
         return b.add("sum2", b.add("sum", y, z), b.conv2d("c", y, {.channels = 5, .kernel = 1}));
       }},
      {"relu", [](GraphBuilder& b, Value x) { return b.relu("op", b.max_pool2d("pool", x)); }},
      {"add_of_one_value_to_itself", [](GraphBuilder& b, Value x) { return b.add("op", x, x); }},
      {"add_relu",
       [](GraphBuilder& b, Value x) {
         const Value y = b.conv2d("other", x, {.channels = 5, .kernel = 1});
         return b.add("last", b.relu("relu", b.add("op", x, y)), b.relu("relu2", y));
       }},
      {"conv2d_in_groups",
       [](GraphBuilder& b, Value x) {
         const Value y = b.conv2d("wide", x, {.channels = 6, .kernel = 1});
         return b.conv2d("op", y, {.channels = 4, .kernel = 3, .padding = 1, .groups = 2});
       }},
      {"conv2d_in_wide_groups",
       [](GraphBuilder& b, Value x) {
         const Value y = b.conv2d("wide", x, {.channels = 32, .kernel = 1});
         return b.conv2d("op", y, {.channels = 32, .kernel = 3, .padding = 1, .groups = 32});
       }},
      {"conv_transpose2d",
       [](GraphBuilder& b, Value x) {
         return b.conv_transpose2d(
             "op", x, {.channels = 3, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1});
       }},
      {"leaky_relu", [](GraphBuilder& b, Value x) { return b.leaky_relu("op", x, 0.2F); }},
      {"sigmoid", [](GraphBuilder& b, Value x) { return b.sigmoid("op", x); }},
      {"gelu", [](GraphBuilder& b, Value x) { return b.gelu("op", x); }},
      {"silu", [](GraphBuilder& b, Value x) { return b.silu("op", x); }},
      {"hard_swish", [](GraphBuilder& b, Value x) { return b.hard_swish("op", x); }},
      {"hard_sigmoid", [](GraphBuilder& b, Value x) { return b.hard_sigmoid("op", x); }},
      // A convolution reads a block's padding, which the gate must leave zero.
      {"squeeze_and_excite",
       [](GraphBuilder& b, Value x) {
         Value gate =
             b.conv2d("fc1", b.adaptive_avg_pool2d("pool", x), {.channels = 3, .kernel = 1});
         gate = b.conv2d("fc2", b.hard_sigmoid("inner", gate), {.channels = 5, .kernel = 1});
         return b.scale("op", x, b.sigmoid("gate", gate));
       }},
      {"layer_norm", [](GraphBuilder& b, Value x) { return b.layer_norm("op", x); }},
      {"layer_norm_of_features",
       [](GraphBuilder& b, Value x) { return b.layer_norm("op", b.flatten("flat", x)); }},
      {"channel_scale",
       [](GraphBuilder& b, Value x) { return b.channel_scale("op", x, {.start = 0.5F}); }},
      {"tokens_and_attention",
       [](GraphBuilder& b, Value x) {
         Value y = b.conv2d("in", b.tokens("op", x), {.channels = 12, .kernel = 1, .flat = true});
         y = b.conv2d("out", b.attention("attention", y, {.heads = 2}),
                      {.channels = 3, .kernel = 1, .flat = true});
         return b.add("sum", b.take_token("one_token", y),
                      b.take_token("another", y, {.index = 2}));
       }},
      {"conv2d_flat",
       [](GraphBuilder& b, Value x) {
         return b.conv2d("op", x, {.channels = 3, .kernel = 1, .flat = true});
       }},
      {"stochastic_depth",
       [](GraphBuilder& b, Value x) {
         return b.add("sum", b.stochastic_depth("op", x, {.probability = 0.5F}), x);
       }},
      {"softmax", [](GraphBuilder& b, Value x) { return b.softmax("op", x); }},
      {"concat",
       [](GraphBuilder& b, Value x) {
         return b.concat("op", {x, b.conv2d("other", x, {.channels = 4, .kernel = 1}), x});
       }},
      {"upsample_nearest", [](GraphBuilder& b, Value x) { return b.upsample("op", x); }},
      {"upsample_bilinear",
       [](GraphBuilder& b, Value x) {
         return b.upsample("op", x, {.factor = 2, .mode = UpsampleMode::kBilinear});
       }},
      {"avg_pool2d",
       [](GraphBuilder& b, Value x) {
         return b.avg_pool2d("op", x, {.kernel = 3, .stride = 2, .padding = 1});
       }},
      {"reshape",
       [](GraphBuilder& b, Value x) {
         return b.conv2d("after", b.reshape("op", x, {10, 5, 3}), {.channels = 2, .kernel = 1});
       }},
      {"shared_weights",
       [](GraphBuilder& b, Value x) {
         const Value once = b.conv2d("op", x, {.channels = 5, .kernel = 1});
         return b.conv2d("again", b.sigmoid("between", once),
                         {.channels = 5, .kernel = 1, .shared = b.weights_of(once)});
       }},
      {"dropout",
       [](GraphBuilder& b, Value x) { return b.dropout("op", x, {.probability = 0.3F}); }},
      {"max_pool2d",
       [](GraphBuilder& b, Value x) {
         return b.max_pool2d("op", x, {.kernel = 3, .stride = 2, .padding = 1});
       }},
      {"adaptive_avg_pool2d",
       [](GraphBuilder& b, Value x) {
         return b.adaptive_avg_pool2d("op", x, {.size = {4, 2}});
       }},
      {"global_avg_pool2d",
       [](GraphBuilder& b, Value x) { return b.adaptive_avg_pool2d("op", x); }},
      {"linear", [](GraphBuilder& b,
                    Value x) { return b.linear("op", b.flatten("flat", x), {.features = 6}); }},
      {"linear_relu",
       [](GraphBuilder& b, Value x) {
         const Value y = b.linear("op", b.flatten("flat", x), {.features = 6});
         return b.linear("op2", b.relu("relu", y), {.features = 3, .bias = false});
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Ops, OpGradient, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::trainer::nn
