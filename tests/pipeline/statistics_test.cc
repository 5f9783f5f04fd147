#include "pipeline/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using namespace std::chrono_literals;
using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;
using ::testing::HasSubstr;

FieldSpec slow_field(std::chrono::microseconds time) {
  return FunctionField{
      .name = "slow",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [time](const wds::Sample&, const decode::SampleId&, std::span<std::byte> slot) {
        slot[0] = std::byte{0};
        std::this_thread::sleep_for(time);
      }};
}

TEST(Statistics, CountEverySampleOfEveryStage) {
  Pipeline pipeline = fake_pipeline(fake_options(3, 16));
  for (Batch batch; pipeline.next(batch);) {
  }
  const Statistics statistics = pipeline.statistics();
  EXPECT_EQ(statistics.stage("read").items, 300U);
  EXPECT_EQ(statistics.stage("read").bytes, 4800U);
  EXPECT_EQ(statistics.stage("decode").items, 300U);
  EXPECT_EQ(statistics.stage("deliver").items, 300U);
  EXPECT_EQ(statistics.samples, 300U);
  EXPECT_EQ(statistics.batches, 19U);
  EXPECT_EQ(statistics.masked, 4U);
  EXPECT_THAT(statistics.to_json(), HasSubstr("\"samples\":300"));
}

// A sleep is never shorter than asked for, however busy the machine is.
TEST(Statistics, CountTheTimeThatAStageIsBusy) {
  PipelineOptions options = fake_options(2, 16);
  options.fields = {slow_field(500us)};
  Pipeline decoding = fake_pipeline(options);
  for (Batch batch; decoding.next(batch);) {
  }
  const StageStatistics decode = decoding.statistics().stage("decode");
  EXPECT_GE(decode.busy, decode.items * 500us);

  FakeStreams streams;
  streams.delay_per_block = 5ms;
  Pipeline reading = fake_pipeline(fake_options(2, 16), streams);
  for (Batch batch; reading.next(batch);) {
  }
  EXPECT_GE(reading.statistics().stage("read").busy, 5ms);
}

TEST(Statistics, NameTheStageThatLimits) {
  Statistics statistics;
  statistics.elapsed = 10s;
  statistics.consumer_wait = 6s;
  statistics.stages = {{.name = "read", .busy = 4s, .waiting = 16s, .threads = 2},
                       {.name = "decode", .busy = 9s, .waiting = 1s}};
  EXPECT_EQ(statistics.verdict().bound, Bound::kInput);
  EXPECT_EQ(statistics.verdict().stage, "decode");
  statistics.stages[0] = {.name = "read", .busy = 19s, .waiting = 1s, .threads = 2};
  EXPECT_EQ(statistics.verdict().stage, "read") << "the share of its threads' time decides";
  EXPECT_THAT(statistics.verdict().text,
              HasSubstr("input-bound by read (95 % busy): the consumer waited 60.0 % of the time"));
}

TEST(Statistics, NameAConsumerThatLimits) {
  Pipeline pipeline = fake_pipeline(fake_options(2, 16));
  for (Batch batch; pipeline.next(batch);) {
  }
  Statistics statistics = pipeline.statistics();
  statistics.elapsed = 100 * statistics.consumer_wait;
  EXPECT_EQ(statistics.verdict().bound, Bound::kConsumer);
  EXPECT_THAT(statistics.to_text(), HasSubstr("consumer-bound: it waited 1.0 %"));
}

TEST(Statistics, SubtractWhatCameBefore) {
  PipelineOptions options = fake_options(2, 16);
  options.epochs.count = 2;
  Pipeline pipeline = fake_pipeline(options);
  for (Batch batch; pipeline.next(batch);) {
  }
  const Statistics first = pipeline.statistics();
  for (Batch batch; pipeline.next(batch);) {
  }
  EXPECT_EQ(pipeline.statistics().since(first).samples, 200U);
}

}  // namespace
}  // namespace millrace::pipeline
