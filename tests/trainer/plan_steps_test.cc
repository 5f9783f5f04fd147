// What a plan tells of its steps, and their times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "io/base/error.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"
#include "trainer/nn/custom_layer.h"
#include "trainer/nn/summary.h"
#include "trainer/ops/detail/image_layout.h"
#include "trainer/plan_profile.h"

namespace millrace::trainer::nn {
namespace {

Graph resnet() { return build_model("resnet18(stem=3x3)", {.num_classes = 10, .image = 16}); }

Graph lenet() { return build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = 28}); }

// Without values, whose drawing takes most of a large model's time.
std::vector<PlanStep> steps_of(const Graph& graph, const PlanOptions& options) {
  std::vector<float> parameters(graph.parameters().padded_size());
  std::vector<float> gradients(parameters.size());
  std::vector<float> buffers(graph.buffers().padded_size());
  return compile(graph, options,
                 {.parameters = parameters, .gradients = gradients, .buffers = buffers})
      ->describe();
}

double flops_of(const std::vector<PlanStep>& steps, const std::string& layer, PlanPass pass) {
  double flops = 0;
  for (const PlanStep& step : steps)
    if (step.layer == layer && step.pass == pass) flops += step.flops;
  return flops;
}

// Of a float32 plan.
std::string image_layout_text(const Graph& graph) {
  const ops::ImageLayout layout = ops::image_layout(graph, false);
  if (layout.channels_last()) return "nhwc";
  return layout.block == 16 ? "nChw16c" : "nChw8c";
}

std::ptrdiff_t count_kind(const std::vector<PlanStep>& steps, const std::string& kind) {
  return std::ranges::count(steps, kind, &PlanStep::kind);
}

/// "layer1.0.conv1" of "layer1.0.conv1.weight".
std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

void expect_every_layer(const Graph& graph, const std::vector<PlanStep>& steps, PlanPass pass) {
  std::set<std::string> named;
  for (const PlanStep& step : steps)
    if (step.pass == pass) named.insert(step.layer.substr(0, step.layer.find(' ')));
  for (const Parameter& parameter : graph.parameters().entries())
    EXPECT_TRUE(named.contains(layer_of(parameter.name))) << parameter.name;
}

TEST(PlanSteps, NameEveryLayerThatHasParameters) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    for (const Graph& graph : {resnet(), lenet(), build_model("unet", {.image = 32}),
                               build_model("alexnet", {.num_classes = 10, .image = 64})}) {
      const auto steps = steps_of(graph, {.batch_size = 2, .precision = precision});
      expect_every_layer(graph, steps, PlanPass::kForward);
      expect_every_layer(graph, steps, PlanPass::kBackward);
    }
  }
}

TEST(PlanSteps, SayLayoutKernelAndBytesOfEach) {
  for (const PlanStep& step : steps_of(resnet(), {.batch_size = 2})) {
    EXPECT_FALSE(step.kernel.empty()) << step.layer << " " << step.kind;
    EXPECT_FALSE(step.layout.empty()) << step.layer << " " << step.kind;
    EXPECT_GT(step.bytes, 0) << step.layer << " " << step.kind;
    EXPECT_FALSE(step.output.empty()) << step.layer << " " << step.kind;
  }
}

TEST(PlanSteps, NameTheLayersThatAreOneByTheirOwnNames) {
  std::set<std::string> layers;
  for (const PlanStep& step : steps_of(resnet(), {.batch_size = 2})) layers.insert(step.layer);
  for (const char* name : {"conv1", "bn1 + relu", "layer1.0.bn1 + relu1",
                           "layer1.0.bn2 + add + relu2", "layer2.0.downsample.0", "logits"})
    EXPECT_TRUE(layers.contains(name)) << name;
}

// 2 N K C R S P Q, in each of the three passes.
TEST(PlanSteps, CountTheFlopsOfConvolutionsAsByHand) {
  GraphBuilder builder;
  Value x = builder.input("image", {32, 12, 10});
  x = builder.conv2d("first", x, {.channels = 32, .kernel = 1});
  x = builder.conv2d("strided", x, {.channels = 64, .kernel = {3, 5}, .stride = 2, .padding = 2});
  x = builder.conv2d("grouped", x, {.channels = 64, .kernel = 3, .padding = 1, .groups = 2});
  x = builder.conv2d("few", x, {.channels = 6, .kernel = 1});
  x = builder.conv_transpose2d("up", x, {.channels = 16});
  builder.output("logits", builder.linear("fc", builder.flatten("flat", x), {.features = 5}));
  const auto steps = steps_of(builder.build(), {.batch_size = 4});
  const auto expect = [&](const std::string& layer, double flops, int back) {
    EXPECT_EQ(flops_of(steps, layer, PlanPass::kForward), flops) << layer;
    EXPECT_EQ(flops_of(steps, layer, PlanPass::kBackward), back * flops) << layer;
  };
  expect("first", 2.0 * 4 * 32 * 32 * 12 * 10, 1);  // an input has no gradient
  expect("strided", 2.0 * 4 * 64 * 32 * (3 * 5) * (7 * 5), 2);
  expect("grouped", 2.0 * 4 * 64 * 32 * (3 * 3) * (7 * 5), 2);  // half of the inputs each
  expect("few", 2.0 * 4 * 6 * 64 * (7 * 5), 2);
  expect("up", 2.0 * 4 * 6 * 16 * (2 * 2) * (7 * 5), 2);
  expect("fc", 2.0 * 4 * (16 * 14 * 10) * 5, 2);
}

TEST(PlanSteps, CountTheBytesOfABatchNorm) {
  GraphBuilder builder;
  const Value x = builder.conv2d("conv", builder.input("image", {32, 8, 8}), {.channels = 32});
  builder.output("y", builder.relu("relu", builder.batch_norm("norm", x)));
  const double array = 4.0 * 2 * 32 * 6 * 6;
  const auto steps = steps_of(builder.build(), {.batch_size = 2});
  for (const PlanStep& step : steps) {
    if (step.kind != "batch norm") continue;
    EXPECT_EQ(step.layer, "norm + relu");
    EXPECT_EQ(step.bytes, (step.pass == PlanPass::kForward ? 2 : 3) * array);
  }
  EXPECT_EQ(count_kind(steps, "batch norm"), 2);
}

// Whose gradient is written by the last of them, and added to by the others.
TEST(PlanSteps, AddTheGradientsOfASharedWeight) {
  const auto steps_with = [](bool tied) {
    GraphBuilder builder;
    const Value x = builder.linear("first", builder.input("x", {16}), {.features = 16});
    Linear second{.features = 16};
    if (tied) second.shared = builder.weights_of(x);
    builder.output("y", builder.linear("second", x, second));
    return steps_of(builder.build(), {.batch_size = 2});
  };
  EXPECT_EQ(count_kind(steps_with(false), "gradient sum"), 0);
  EXPECT_EQ(count_kind(steps_with(true), "gradient sum"), 2);  // weights and bias
}

TEST(PlanSteps, TellHowThePlansImagesLie) {
  const auto steps = steps_of(resnet(), {.batch_size = 2});
  const auto norm = std::ranges::find(steps, "batch norm", &PlanStep::kind);
  ASSERT_NE(norm, steps.end());
  EXPECT_EQ(norm->layout, image_layout_text(resnet()));
  EXPECT_EQ(norm->kernel, "millrace");
}

TEST(PlanSteps, HaveReordersByBothLayouts) {
  GraphBuilder builder;
  const Value x = builder.input("image", {16, 4, 4});
  builder.output("y", builder.relu("relu", x));
  const Graph graph = builder.build();
  const auto steps = steps_of(graph, {.batch_size = 2});
  ASSERT_EQ(steps.front().kind, "reorder");
  EXPECT_EQ(steps.front().layer, "image");
  const std::string to = image_layout_text(graph);
  EXPECT_EQ(steps.front().layout, to == "nhwc" ? to : "nhwc > " + to);
  EXPECT_EQ(steps.back().layer, "y");
}

// Where bf16 is emulated what one primitive writes and another reads is rounded in between, and
// pictures in bf16 are widened. tests/trainer/kinds.sh runs this as such a processor.
TEST(PlanSteps, ListRoundingsWhereBFloat16IsEmulatedAndNowhereElse) {
  const PlanOptions options{
      .batch_size = 2, .precision = Precision::kBFloat16, .input_dtype = decode::DType::kBFloat16};
  const auto steps = steps_of(lenet(), options);
  const bool emulated = !has_native_bfloat16();
  const auto is_of = [&](const char* layer, PlanPass pass, const char* part) {
    return std::ranges::any_of(steps, [&](const PlanStep& step) {
      return step.kind == "rounding" && step.layer == layer && step.pass == pass &&
             step.part == part;
    });
  };
  EXPECT_EQ(is_of("conv1 + relu1", PlanPass::kForward, ""), emulated);
  EXPECT_EQ(is_of("conv2 + relu2", PlanPass::kForward, "W"), emulated);
  EXPECT_EQ(is_of("fc1 + relu3", PlanPass::kForward, ""), emulated);
  EXPECT_EQ(is_of("conv2 + relu2", PlanPass::kBackward, ""), emulated);
  EXPECT_EQ(count_kind(steps, "widening"), emulated ? 1 : 0);
  EXPECT_EQ(count_kind(steps_of(lenet(), {.batch_size = 2}), "rounding"), 0);
}

TEST(PlanSteps, HaveNoBackwardPassWithoutGradients) {
  const Graph graph = lenet();
  std::vector<float> parameters(graph.parameters().padded_size());
  std::vector<float> buffers(graph.buffers().padded_size());
  const auto plan = compile(graph, {.batch_size = 2}, {parameters, {}, buffers});
  for (const PlanStep& step : plan->describe()) EXPECT_EQ(step.pass, PlanPass::kForward);
}

std::vector<float> step_bits(Network& network) {
  const auto output = network.forward({random_values(2 * 16 * 16 * 3, 1)});
  std::vector<float> bits(output.data.begin(), output.data.end());
  network.backward(random_values(20, 2));
  bits.insert(bits.end(), network.gradients().begin(), network.gradients().end());
  bits.insert(bits.end(), network.buffers().begin(), network.buffers().end());
  network.plan().parameters_changed();
  return bits;
}

TEST(PlanSteps, HaveTheSameBitsWhileTheyAreTimed) {
  const PlanOptions options{.batch_size = 2, .precision = Precision::kBFloat16};
  Network plain(resnet(), options);
  Network timed(resnet(), options);
  std::vector<double> seconds(timed.plan().describe().size(), -1.0);
  timed.plan().time_into(seconds);
  EXPECT_EQ(step_bits(plain), step_bits(timed));
  EXPECT_TRUE(std::ranges::none_of(seconds, [](double value) { return value < 0; }));
  timed.plan().time_into({});
  std::ranges::fill(seconds, -1.0);
  EXPECT_EQ(step_bits(plain), step_bits(timed));
  EXPECT_TRUE(std::ranges::all_of(seconds, [](double value) { return value == -1.0; }));
}

TEST(PlanProfile, HasATimeForEachStepAndBothPeaks) {
  const GraphModel model("lenet", lenet());
  const PlanProfile profile =
      profile_plan(model, {.batch_size = 4, .precision = Precision::kBFloat16}, {.seconds = 0});
  ASSERT_FALSE(profile.steps.empty());
  EXPECT_EQ(profile.seconds.size(), profile.steps.size());
  EXPECT_GT(profile.peaks.flops, 0);
  EXPECT_GT(profile.peaks.bytes, 0);
  EXPECT_GT(profile.forward_seconds, 0);
  EXPECT_GT(profile.backward_seconds, 0);
  for (std::size_t i = 0; i < profile.steps.size(); ++i)
    EXPECT_LE(profile.steps[i].flops, profile.peaks.flops * profile.seconds[i] * 1.0001);
}

TEST(PlanProfile, ComparesWithTheLargerOfTheTwoLimits) {
  const Peaks peaks{.flops = 100, .bytes = 10};
  EXPECT_EQ(peaks.least_seconds({.flops = 200, .bytes = 10}), 2);
  EXPECT_EQ(peaks.least_seconds({.flops = 200, .bytes = 50}), 5);
  const PlanProfile profile{.steps = {{.flops = 200, .bytes = 10}}, .seconds = {8}, .peaks = peaks};
  EXPECT_EQ(profile.limit_share(0), 0.25);
}

}  // namespace
}  // namespace millrace::trainer::nn
