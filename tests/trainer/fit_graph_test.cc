// fit() with compiled models on CPU devices: loss curves that must not depend on their number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/base/error.h"
#include "tests/trainer/fakes.h"
#include "trainer/fit.h"
#include "trainer/input_shapes.h"
#include "trainer/models/models.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using testing::make_samples;
using testing::MemoryFeed;

constexpr std::int64_t kGraphImage = 28;
constexpr std::int64_t kGraphClasses = 4;

struct Curve {
  std::string devices = "1";
  std::int64_t global_batch = 32;
  std::int64_t steps = 14;
};

std::vector<double> losses_of(const nn::Graph& graph, const Curve& curve) {
  const device::DeviceSet set = device::DeviceSet::parse(curve.devices);
  DeviceThreads devices(set);
  const auto count = static_cast<std::size_t>(curve.steps * curve.global_batch);
  MemoryFeed train(make_samples(count, kGraphImage * kGraphImage, kGraphClasses, 1),
                   curve.global_batch / devices.size(), devices.size());
  const GraphModel model("m", graph);
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  testing::Recorder recorder;
  fit({.model = model, .objective = objective, .train = train, .devices = devices},
      {.precision = nn::Precision::kFloat32,
       .seed = 3,
       .optimizer = {.rule = Sgd{.lr = 0.1, .momentum = 0.9F}}},
      {&recorder});
  return recorder.losses;
}

TEST(FitGraph, EightDevicesFollowOnesCurve) {
  const nn::Graph lenet =
      build_model("lenet", {.num_classes = kGraphClasses, .in_channels = 1, .image = kGraphImage});
  const auto one = losses_of(lenet, {.devices = "1"});
  const auto eight = losses_of(lenet, {.devices = "8"});
  ASSERT_EQ(14U, one.size());
  ASSERT_EQ(14U, eight.size());
  EXPECT_LT(one.back(), 0.9 * one.front()) << "it learns, so there is something to compare";
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], eight[i], 1e-5 * one[i]) << "step " << i;
  }
}

nn::Graph with_dropout(float probability) {
  nn::GraphBuilder builder;
  nn::Value x = builder.flatten("flat", builder.input("image", {1, kGraphImage, kGraphImage}));
  x = builder.relu("relu", builder.linear("fc1", x, {.features = 32}));
  x = builder.dropout("drop", x, {.probability = probability});
  builder.output("logits", builder.linear("fc2", x, {.features = kGraphClasses}));
  return builder.build();
}

TEST(FitGraph, DropoutIsKeyedAndRepeatsItself) {
  const auto dropped = losses_of(with_dropout(0.5F), {.devices = "2"});
  EXPECT_EQ(dropped, losses_of(with_dropout(0.5F), {.devices = "2"}));
  EXPECT_NE(dropped, losses_of(with_dropout(0.0F), {.devices = "2"}));
}

template <typename Work>
std::string refusal(const Work& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    return error.what();
  }
}

/// What is said of a batch of two pictures with this shape; empty: nothing.
std::string refusal_of(std::vector<std::int64_t> shape) {
  nn::GraphBuilder builder;
  const nn::Value x = builder.flatten("flat", builder.input("image", {3, 12, 10}));
  builder.output("logits", builder.linear("fc", x, {.features = 2}));
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  pipeline::Batch batch;
  batch.size = 2;
  batch.fields = {{"x", {decode::DType::kFloat32, std::move(shape)}, {}}};
  return refusal([&] { check_inputs(builder.build(), objective, batch); });
}

// As many bytes as the model reads are not yet its picture.
TEST(FitGraph, PicturesOfAnotherLayoutOrWithSwappedSidesAreRefused) {
  EXPECT_EQ("", refusal_of({2, 12, 10, 3}));
  EXPECT_EQ("", refusal_of({2, 360})) << "in a row";
  EXPECT_THAT(refusal_of({2, 3, 12, 10}),
              HasSubstr("field x is (2, 3, 12, 10), and the model reads (2, 12, 10, 3): batch, "
                        "height, width, channels"));
  EXPECT_THAT(refusal_of({2, 10, 12, 3}), HasSubstr("(2, 10, 12, 3)"));
  EXPECT_THAT(refusal_of({360, 2}), HasSubstr("(360, 2)"));
}

TEST(FitGraph, AnObjectiveWithoutAnInputIsRefused) {
  EXPECT_THAT(refusal([] { LossObjective({.inputs = {}, .heads = {Head{}}}); }),
              HasSubstr("at least one input"));
}

}  // namespace
}  // namespace millrace::trainer
