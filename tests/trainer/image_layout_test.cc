// The two layouts of images in a plan.
#include "trainer/ops/detail/image_layout.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"

namespace millrace::trainer::nn {
namespace {

constexpr const char* kVariable = "MILLRACE_IMAGE_LAYOUT";

class ImageLayouts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* const word = std::getenv(kVariable)) before_ = word;
  }
  void TearDown() override {
    ::unsetenv(kVariable);
    if (!before_.empty()) ::setenv(kVariable, before_.c_str(), 1);
  }

 private:
  std::string before_;
};

// A step's results.
struct Step {
  std::vector<float> output, gradients, buffers;
};

Step step_of(const Graph& graph, const PlanOptions& options, const char* layout) {
  ::setenv(kVariable, layout, 1);
  Network network(graph, options);
  const Shape& shape = graph.node(graph.inputs()[0]).shape;
  const auto values = static_cast<std::size_t>(options.batch_size * shape[0] * shape[1] * shape[2]);
  Step step;
  const auto output = network.forward({random_values(values, 3)}).data;
  step.output.assign(output.begin(), output.end());
  network.backward(random_values(output.size(), 4));
  step.gradients.assign(network.gradients().begin(), network.gradients().end());
  step.buffers.assign(network.buffers().begin(), network.buffers().end());
  return step;
}

// Every kind of layer, with numbers of channels that fill blocks and that do not.
Graph every_layer() {
  GraphBuilder builder;
  const Value image = builder.input("image", {5, 12, 10});
  const Value a = builder.relu(
      "relu_a", builder.batch_norm(
                    "norm_a", builder.conv2d("conv_a", image, {.channels = 24, .padding = 1})));
  const Value b = builder.batch_norm(
      "norm_b", builder.conv2d("conv_b", a, {.channels = 24, .padding = 1, .bias = false}));
  const Value sum = builder.relu("relu_b", builder.add("sum", b, a));
  const Value few = builder.conv2d("few", sum, {.channels = 3, .kernel = 1});
  const Value odd = builder.relu(
      "relu_odd", builder.batch_norm("norm_odd", builder.concat("concat", {sum, few})));
  const Value small = builder.max_pool2d("max", odd);
  const Value up = builder.conv_transpose2d("up", small, {.channels = 16});
  const Value wide = builder.upsample("wide", builder.avg_pool2d("avg", odd));
  const Value all = builder.concat("all", {up, sum, wide});
  const Value pooled = builder.adaptive_avg_pool2d("pool", all, {.size = {3, 2}});
  builder.output("y", builder.linear("fc", builder.flatten("flatten", pooled), {.features = 7}));
  return builder.build();
}

TEST_F(ImageLayouts, GiveTheSameStep) {
  const PlanOptions options{.batch_size = 6};
  const Step blocks = step_of(every_layer(), options, "blocks");
  const Step rows = step_of(every_layer(), options, "channels_last");
  EXPECT_LT(relative_error(rows.output, blocks.output), 1e-5);
  EXPECT_LT(relative_error(rows.gradients, blocks.gradients), 1e-4);
  EXPECT_LT(relative_error(rows.buffers, blocks.buffers), 1e-6);
}

TEST_F(ImageLayouts, GiveTheSameStepInBFloat16) {
  const PlanOptions options{.batch_size = 6, .precision = Precision::kBFloat16};
  const Step exact = step_of(every_layer(), {.batch_size = 6}, "blocks");
  const Step blocks = step_of(every_layer(), options, "blocks");
  const Step rows = step_of(every_layer(), options, "channels_last");
  // As near to the exact one.
  const auto near = [&](std::vector<float> Step::*of) {
    EXPECT_LT(relative_error(rows.*of, exact.*of), 1.3 * relative_error(blocks.*of, exact.*of));
  };
  near(&Step::output);
  near(&Step::gradients);
  near(&Step::buffers);
}

// oneDNN 2.6 has code that is wrong for some of them.
TEST_F(ImageLayouts, TakeConvolutionsOfAnyNumberOfChannels) {
  for (const std::int64_t kernel : {1, 3}) {
    for (const std::int64_t channels : {1, 2, 3, 5, 16, 21, 32}) {
      GraphBuilder builder;
      const Value x = builder.batch_norm("norm", builder.input("image", {24, 12, 10}));
      const Value y =
          builder.conv2d("conv", x, {.channels = channels, .kernel = kernel, .bias = false});
      builder.output("y", builder.relu("relu", builder.batch_norm("last", y)));
      const Graph graph = builder.build();
      const PlanOptions options{.batch_size = 6, .precision = Precision::kBFloat16};
      const Step blocks = step_of(graph, options, "blocks");
      const Step rows = step_of(graph, options, "channels_last");
      EXPECT_LT(relative_error(rows.gradients, blocks.gradients), 0.02)
          << kernel << ' ' << channels;
      EXPECT_LT(relative_error(rows.output, blocks.output), 0.02) << kernel << ' ' << channels;
    }
  }
}

// Of batch norm alone: oneDNN's convolutions sum weights' gradients by threads.
TEST_F(ImageLayouts, GiveTheSameBitsForAnyNumberOfThreads) {
  GraphBuilder builder;
  const Value x = builder.batch_norm("first", builder.input("image", {37, 9, 11}));
  const Value y = builder.batch_norm("second", builder.relu("relu", x));
  const Value sum = builder.relu("last", builder.add("sum", y, x));
  builder.output("y", builder.adaptive_avg_pool2d("pool", sum, {.size = {4, 5}}));
  const Graph graph = builder.build();
  const int before = omp_get_max_threads();
  for (const char* layout : {"blocks", "channels_last"}) {
    std::vector<Step> steps;
    for (const int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      steps.push_back(step_of(graph, {.batch_size = 23}, layout));
    }
    for (const Step& step : steps) {
      EXPECT_EQ(step.output, steps[0].output) << layout;
      EXPECT_EQ(step.gradients, steps[0].gradients) << layout;
      EXPECT_EQ(step.buffers, steps[0].buffers) << layout;
    }
  }
  omp_set_num_threads(before);
}

TEST_F(ImageLayouts, FollowTheProcessorAndTheModel) {
  ::unsetenv(kVariable);
  const auto block = [](const std::string& model, std::int64_t channels, bool bfloat16,
                        ops::Isa isa) {
    return ops::image_layout(
               build_model(model, {.num_classes = 10, .in_channels = channels, .image = 64}),
               bfloat16, isa)
        .block;
  };
  for (const char* model : {"resnet18", "resnet50", "unet", "alexnet"})
    EXPECT_EQ(block(model, 3, true, ops::Isa::kAmx), ops::ImageLayout::kAllChannels) << model;
  EXPECT_EQ(block("lenet", 1, true, ops::Isa::kAmx), 16);
  EXPECT_EQ(block("resnet18", 3, false, ops::Isa::kAmx), 16);
  EXPECT_EQ(block("resnet18", 3, true, ops::Isa::kAvx512Bf16), 16);
  EXPECT_EQ(block("resnet18", 3, false, ops::Isa::kAvx2), 8);
}

TEST_F(ImageLayouts, AreNamedByAWord) {
  ::setenv(kVariable, "nchw", 1);
  try {
    ops::image_layout(build_model("resnet18", {}), true);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "InvalidArgument: MILLRACE_IMAGE_LAYOUT=nchw: there are channels_last, blocks");
  }
}

}  // namespace
}  // namespace millrace::trainer::nn
