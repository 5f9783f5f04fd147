// predict: every sample's outputs, once and in order, for any number of devices.
#include "trainer/predict.h"

#include <gtest/gtest.h>

#include "io/base/error.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

using testing::make_samples;

constexpr std::int64_t kPredictedFeatures = 5;
constexpr std::int64_t kPredictedClasses = 3;

/// A linear model with start weights in a file, and samples for it.
class PredictTest : public ::testing::Test {
 protected:
  PredictTest()
      : model_(kPredictedFeatures, kPredictedClasses), weights_(model_.parameters().padded_size()) {
    std::vector<float> buffers(model_.buffers().padded_size());
    model_.initialise(5, weights_, buffers);
    save_weights(path(), {{.table = &model_.parameters(), .values = weights_},
                          {.table = &model_.buffers(), .values = buffers}});
  }

  std::string path() const { return folder_ / "w.safetensors"; }

  std::int64_t predict(int world, const PredictionSink& each) {
    const device::DeviceSet set = device::DeviceSet::cpu(world);
    DeviceThreads devices(set);
    testing::MemoryFeed feed(samples_, 4, world);
    return trainer::predict(
        {.model = model_, .objective = objective_, .feed = feed, .devices = devices},
        {.precision = nn::Precision::kFloat32, .weights = path()}, each);
  }

  /// W x + b, in the order in which LinearModel adds.
  float expected(const testing::FakeSample& sample, std::size_t output) const {
    const Parameter* weight = model_.parameters().find("fc.weight");
    float sum = weights_[model_.parameters().find("fc.bias")->offset + output];
    for (std::size_t i = 0; i < sample.features.size(); ++i)
      sum += weights_[weight->offset + output * sample.features.size() + i] * sample.features[i];
    return sum;
  }

  testing::TempDir folder_;
  testing::LinearModel model_;
  std::vector<float> weights_;
  LossObjective objective_{{.inputs = {"x"}, .heads = {Head{}}}};
  std::vector<testing::FakeSample> samples_ =
      make_samples(29, kPredictedFeatures, kPredictedClasses, 1);
};

TEST_F(PredictTest, GivesEverySampleOnceInOrderOnAnyNumberOfDevices) {
  for (const int world : {1, 2, 3, 8}) {
    std::size_t next = 0;
    const std::int64_t samples = predict(world, [&](const Prediction& one) {
      ASSERT_EQ("sample" + std::to_string(next), one.key) << world;
      ASSERT_EQ(1U, one.outputs.size());
      ASSERT_EQ(kPredictedClasses, static_cast<std::int64_t>(one.outputs[0].size()));
      for (std::size_t i = 0; i < one.outputs[0].size(); ++i)
        EXPECT_NEAR(expected(samples_[next], i), one.outputs[0][i], 1e-5);
      ++next;
    });
    EXPECT_EQ(29, samples);
    EXPECT_EQ(29U, next);
  }
}

TEST_F(PredictTest, WhatTheSinkThrowsEndsIt) {
  int seen = 0;
  EXPECT_THROW(predict(3,
                       [&](const Prediction&) {
                         if (++seen == 10) throw Error(ErrorCode::kIo, "the disk is full");
                       }),
               Error);
  EXPECT_EQ(10, seen);
}

}  // namespace
}  // namespace millrace::trainer
