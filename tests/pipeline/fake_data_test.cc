#include "pipeline/fake_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "io/base/error.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

PipelineOptions options() {
  PipelineOptions options;
  options.fields = {
      ImageField{.transforms = {decode::Resize{6, 6}}, .dtype = decode::DType::kBFloat16},
      LabelField{}, FloatsField{.size = 3}};
  options.split.workers = 3;
  options.batch.size = 8;
  options.resources = {.threads = 2};
  return options;
}

TEST(FakeData, HaveTheShapesAndCountsOfRealOnes) {
  Pipeline pipeline = fake_data(options(), {.samples = 50, .classes = 4});
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
  Pipeline first = fake_data(options(), {.samples = 50});
  Pipeline second = fake_data(options(), {.samples = 50});
  const auto all = testing::describe_all(first);
  Batch batch;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(second.next(batch));
  PipelineOptions rest = options();
  rest.resume = batch.position;
  Pipeline resumed = fake_data(rest, {.samples = 50});
  EXPECT_EQ(testing::describe_all(resumed), std::vector<std::string>(all.begin() + 3, all.end()));
}

TEST(FakeData, NeedACount) { EXPECT_THROW(fake_data(options(), {}), Error); }

}  // namespace
}  // namespace millrace::pipeline
