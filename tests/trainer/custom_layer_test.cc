#include "trainer/nn/custom_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/nn_support.h"
#include "trainer/nn/tie.h"

namespace millrace::trainer::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = x W' + b, by definition: what Linear computes.
class PlainLinear final : public CustomLayer {
 public:
  explicit PlainLinear(std::int64_t features) : features_(features) {}

  std::string_view kind() const override { return "plain_linear"; }
  Shape shape(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() != 1)
      throw Error(ErrorCode::kInvalidArgument, "needs features (F)");
    return {features_};
  }
  std::optional<CustomParameter> weight(std::span<const Shape> inputs) const override {
    return CustomParameter{{features_, inputs[0][0]}, Init::kKaimingUniform, inputs[0][0]};
  }
  std::optional<CustomParameter> bias(std::span<const Shape> inputs) const override {
    return CustomParameter{{features_}, Init::kKaimingUniform, inputs[0][0], false};
  }

  void forward(const CustomForward& pass) const override {
    const std::size_t width = pass.weight.size() / pass.bias.size();
    each(pass.samples, [&](std::size_t n, std::size_t row) {
      float sum = pass.bias[row];
      for (std::size_t i = 0; i < width; ++i)
        sum += pass.weight[row * width + i] * pass.inputs[0][n * width + i];
      pass.output[n * pass.bias.size() + row] = sum;
    });
  }

  void backward(const CustomBackward& pass) const override {
    const std::size_t width = pass.weight.size() / pass.bias.size();
    for (const std::span<float> all :
         {pass.input_gradients[0], pass.weight_gradient, pass.bias_gradient})
      std::ranges::fill(all, 0.0F);
    each(pass.samples, [&](std::size_t n, std::size_t row) {
      const float g = pass.output_gradient[n * pass.bias.size() + row];
      pass.bias_gradient[row] += g;
      for (std::size_t i = 0; i < width; ++i) {
        pass.weight_gradient[row * width + i] += g * pass.inputs[0][n * width + i];
        if (!pass.input_gradients[0].empty())
          pass.input_gradients[0][n * width + i] += g * pass.weight[row * width + i];
      }
    });
  }

 private:
  template <typename F>
  void each(std::int64_t samples, const F& f) const {
    for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
      for (std::size_t row = 0; row < static_cast<std::size_t>(features_); ++row) f(n, row);
  }

  std::int64_t features_;
};

// conv -> relu -> flatten -> a linear layer of either kind -> linear.
Graph model(bool own, std::int64_t features = 24) {
  GraphBuilder builder;
  Value x = builder.input("image", {3, 6, 5});
  x = builder.relu("relu", builder.conv2d("conv", x, {.channels = 5, .kernel = 3}));
  x = builder.flatten("flatten", x);
  x = own ? builder.custom("middle", std::make_shared<PlainLinear>(features), {x})
          : builder.linear("middle", x, {.features = features});
  builder.output("logits", builder.linear("last", x, {.features = 7}));
  return builder.build();
}

double difference(Precision precision, bool of_gradients) {
  const PlanOptions options{.batch_size = 4, .precision = precision};
  Network own(model(true), options);
  Network known(model(false), options);
  EXPECT_TRUE(std::ranges::equal(own.parameters(), known.parameters()));
  const auto image = random_values(4 * 3 * 6 * 5, 1);
  const auto outputs = own.forward({image}).data;
  const double outputs_differ = relative_error(outputs, known.forward({image}).data);
  if (!of_gradients) return outputs_differ;
  for (Network* network : {&own, &known}) network->backward(random_values(4 * 7, 2));
  return relative_error(own.gradients(), known.gradients());
}

TEST(CustomLayer, ComputesWhatTheSameBuiltInLayerDoes) {
  EXPECT_LT(difference(Precision::kFloat32, false), 1e-6);
  EXPECT_LT(difference(Precision::kFloat32, true), 1e-6);
}

TEST(CustomLayer, SeesBFloat16WeightsAndValuesInABFloat16Plan) {
  EXPECT_LT(difference(Precision::kBFloat16, false), 2e-3);
  EXPECT_LT(difference(Precision::kBFloat16, true), 1e-2);
}

TEST(CustomLayer, TakesNewWeightsOnceToldThatTheyChanged) {
  Network network(model(true), {.batch_size = 4, .precision = Precision::kBFloat16});
  const auto image = random_values(4 * 3 * 6 * 5, 1);
  const OutputView view = network.forward({image});
  const std::vector<float> first(view.data.begin(), view.data.end());
  std::ranges::fill(network.parameter("middle.weight"), 0.0F);
  network.plan().parameters_changed();
  EXPECT_GT(relative_error(network.forward({image}).data, first), 0.1);
}

// Two layers that share a weight: its gradient is the sum of both.
TEST(CustomLayer, AddsToTheGradientOfASharedWeight) {
  const auto twice = [](bool own) {
    GraphBuilder builder;
    Value x = builder.input("x", {9});
    for (const std::string name : {"one", "two"}) {
      x = own ? builder.custom(name, std::make_shared<PlainLinear>(9), {x})
              : builder.linear(name, x, {.features = 9});
    }
    builder.output("y", x);
    return tie_weights(builder.build(), {.layer = "two", .to = "one"});
  };
  Network own(twice(true), {.batch_size = 3});
  Network known(twice(false), {.batch_size = 3});
  for (Network* network : {&own, &known}) {
    network->forward({random_values(27, 1)});
    network->backward(random_values(27, 2));
  }
  EXPECT_LT(relative_error(own.gradients(), known.gradients()), 1e-6);
}

std::vector<std::string> work_of(const std::vector<PlanStep>& steps, PlanPass pass) {
  std::vector<std::string> kinds;
  for (const PlanStep& step : steps)
    if (step.layer == "middle" && step.pass == pass) kinds.push_back(step.kind);
  return kinds;
}

TEST(CustomLayer, IsAStepOfThePlanBetweenItsCopies) {
  Network full(model(true), {.batch_size = 2});
  const auto steps = full.plan().describe();
  const auto each = ElementsAre("reorder", "plain_linear", "reorder");
  EXPECT_THAT(work_of(steps, PlanPass::kForward), each);
  EXPECT_THAT(work_of(steps, PlanPass::kBackward), each);
  Network half(model(true), {.batch_size = 2, .precision = Precision::kBFloat16});
  const auto rounded = work_of(half.plan().describe(), PlanPass::kForward);
  EXPECT_EQ(std::ranges::count(rounded, "rounding"), has_native_bfloat16() ? 1 : 2);
}

TEST(CustomLayer, IsNamedWithItsShapesWhenItsInputDoesNotFit) {
  GraphBuilder builder;
  const Value x = builder.input("image", {3, 6, 5});
  try {
    builder.custom("middle", std::make_shared<PlainLinear>(4), {x});
    FAIL() << "an image is accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("plain_linear middle: needs features (F), got (3, 6, 5)"));
  }
}

}  // namespace
}  // namespace millrace::trainer::nn
