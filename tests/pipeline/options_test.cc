#include "pipeline/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "io/base/error.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using testing::fake_options;
using testing::fake_pipeline;
using ::testing::HasSubstr;

std::string refusal(const std::function<void(PipelineOptions&)>& change) {
  PipelineOptions options = fake_options(4, 8);
  options.shards = {"0.tar", "1.tar", "2.tar", "3.tar"};
  change(options);
  try {
    Pipeline pipeline(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "accepted";
}

TEST(PipelineOptions, NameWhatCanNeverWork) {
  EXPECT_THAT(refusal([](auto& o) { o.batch.size = 0; }), HasSubstr("batch size 0"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.threads = -1; }), HasSubstr("threads -1"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.prefetch = 0; }), HasSubstr("prefetch 0"));
  EXPECT_THAT(refusal([](auto& o) { o.shards.clear(); }), HasSubstr("no shards"));
  EXPECT_THAT(refusal([](auto& o) { o.fields.clear(); }), HasSubstr("field"));
  EXPECT_THAT(refusal([](auto& o) { o.fields.push_back(o.fields[0]); }), HasSubstr("two fields"));
  EXPECT_THAT(refusal([](auto& o) { o.split.topology.process = 1; }), HasSubstr("process 1"));
  EXPECT_THAT(refusal([](auto& o) { o.split.streams = 5, o.scan = false; }), HasSubstr("4"));
  EXPECT_THAT(refusal([](auto& o) { o.epochs.resampled = true; }), HasSubstr("resampled"));
  EXPECT_THAT(
      refusal([](auto& o) { o.batch = {.size = 8, .uneven = Uneven::kDrop, .partial = true}; }),
      HasSubstr("partial"));
  EXPECT_THAT(refusal([](auto& o) { o.batch.size = std::int64_t{1} << 60; }), HasSubstr("memory"));
}

TEST(PipelineOptions, FitIntoTheBudgetOrSayWhatItTakes) {
  EXPECT_THAT(refusal([](auto& o) { o.resources.memory_budget_bytes = 1000; }),
              HasSubstr("budget of 1000 bytes is too small"));
  PipelineOptions options = fake_options(4, 8);
  Pipeline wide = fake_pipeline(options);
  options.resources.memory_budget_bytes = wide.memory_bound_bytes() - 1;
  Pipeline narrow = fake_pipeline(options);
  EXPECT_LE(narrow.memory_bound_bytes(), options.resources.memory_budget_bytes);
}

}  // namespace
}  // namespace millrace::pipeline
