// fit() with compiled models on CPU devices: loss curves that must not depend on their number.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/fakes.h"
#include "trainer/fit.h"
#include "trainer/models/models.h"

namespace millrace::trainer {
namespace {

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

}  // namespace
}  // namespace millrace::trainer
