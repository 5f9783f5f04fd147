#include "pipeline/fake_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

PipelineOptions options() {
  PipelineOptions options;
  options.fields = {
      ImageField{.transforms = {decode::Resize{{6, 6}}}, .dtype = decode::DType::kBFloat16},
      LabelField{}, FloatsField{.size = 3}};
  options.split.workers = 3;
  options.batch.size = 8;
  options.resources = {.threads = 2};
  return options;
}

Pipeline fake(const FakeDataOptions& fake) { return Pipeline(with_fake_data(options(), fake)); }

TEST(FakeData, HaveTheShapesAndCountsOfRealOnes) {
  Pipeline pipeline = fake({.samples = 50, .classes = 4});
  std::set<std::int64_t> labels;
  std::int64_t valid = 0;
  for (Batch batch; pipeline.next(batch);) {
    EXPECT_EQ(batch.field("image").spec.shape, (std::vector<std::int64_t>{8, 6, 6, 3}));
    const auto drawn = batch.field("label").as<std::int64_t>();
    labels.insert(drawn.begin(), drawn.end());
    for (const float value : batch.field("target").as<float>()) {
      EXPECT_TRUE(value == 0.0F || value == 1.0F);
    }
    valid += batch.num_valid;
  }
  EXPECT_EQ(valid, 50);
  EXPECT_EQ(labels, (std::set<std::int64_t>{0, 1, 2, 3}));
}

TEST(FakeData, AreTheSameForTheSameSeedAndAfterAResume) {
  Pipeline first = fake({.samples = 50});
  Pipeline second = fake({.samples = 50});
  const auto all = testing::describe_all(first);
  Batch batch;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(second.next(batch));
  PipelineOptions rest = with_fake_data(options(), {.samples = 50});
  rest.resume = batch.position;
  Pipeline resumed(rest);
  EXPECT_EQ(testing::describe_all(resumed), std::vector<std::string>(all.begin() + 3, all.end()));
}

TEST(FakeData, NeedACount) { EXPECT_THROW(with_fake_data(options(), {}), Error); }

TEST(FakeData, AreAsManyAsAnEpochIsToHave) {
  PipelineOptions given = options();
  EXPECT_EQ(batches_per_epoch(with_fake_data(given, {.samples = 50})), 7);
  for (const std::int64_t samples : {20, 70}) {
    given.epochs.samples = samples;
    Pipeline pipeline(with_fake_data(given, {.samples = 50}));
    std::int64_t valid = 0;
    for (Batch batch; pipeline.next(batch);) valid += batch.num_valid;
    EXPECT_EQ(valid, samples);
  }
}

TEST(FakeData, TakeThePlaceOfShards) {
  PipelineOptions given = options();
  given.shards = {"missing.tar"};
  given.shuffle = {.shards = true, .buffer_samples = 100, .seed = 3};
  given.indexed = true;
  const PipelineOptions faked = with_fake_data(given, {.samples = 50});
  EXPECT_TRUE(faked.shards.empty());
  EXPECT_EQ(faked.shuffle.seed, 3U);
  Pipeline pipeline(faked);
  Batch batch;
  EXPECT_TRUE(pipeline.next(batch));
}

}  // namespace
}  // namespace millrace::pipeline
