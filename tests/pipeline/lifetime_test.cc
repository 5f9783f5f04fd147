#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <stop_token>
#include <thread>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using namespace std::chrono_literals;
using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

TEST(PipelineLifetime, EndsInMidEpochRepeatedlyAndLeaksNothing) {
  PipelineOptions options = fake_options(4, 8);
  options.resources.threads = 3;
  options.epochs.count = 0;
  { Pipeline warm_up = fake_pipeline(options); }
  const auto threads = entries_of("/proc/self/task");
  const auto descriptors = entries_of("/proc/self/fd");
  for (int round = 0; round < 300; ++round) {
    Pipeline pipeline = fake_pipeline(options);
    Batch batch;
    for (int i = 0; i < round % 7; ++i) ASSERT_TRUE(pipeline.next(batch));
  }
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

TEST(PipelineLifetime, EndsWhileAReadWaits) {
  FakeStreams streams;
  streams.block_at = 14;
  auto pipeline = std::make_unique<Pipeline>(fake_pipeline(fake_options(3, 8), streams));
  Batch batch;
  ASSERT_TRUE(pipeline->next(batch));
  std::this_thread::sleep_for(20ms);
  pipeline.reset();
}

TEST(PipelineLifetime, EndsWhileDecodeTasksWait) {
  FakeStreams streams;
  streams.length = [](int, std::uint32_t) { return 100'000; };
  PipelineOptions options = fake_options(2, 64);
  std::atomic<int> decoded = 0;
  options.fields = {FunctionField{
      .name = "slow",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [&](const wds::Sample&, const decode::SampleId&, std::span<std::byte>) {
        ++decoded;
        std::this_thread::sleep_for(1ms);
      }}};
  auto pipeline = std::make_unique<Pipeline>(fake_pipeline(options, streams));
  while (decoded < 10) std::this_thread::yield();
  pipeline.reset();
  EXPECT_LT(decoded, 10'000) << "of 200,000: what had begun is finished, not the epoch";
}

// What threw is left half done: no stage may be entered again.
TEST(PipelineLifetime, NothingIsDecodedAfterAStageHadNoMemory) {
  PipelineOptions options = fake_options(2, 4);
  options.resources.threads = 1;
  std::atomic<int> decoded = 0;
  options.fields = {FunctionField{
      .name = "none",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [&](const wds::Sample&, const decode::SampleId&, std::span<std::byte>) {
        if (++decoded >= 20) throw std::bad_alloc();
      }}};
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  EXPECT_THROW(while (pipeline.next(batch)){}, std::bad_alloc);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(decoded, 20);
  EXPECT_THROW(pipeline.next(batch), std::bad_alloc);
}

TEST(PipelineLifetime, ABufferThatCannotBeHadEndsItForGood) {
  for (int nth = 1; nth <= 3; ++nth) {
    PipelineOptions options = fake_options(2, 4);
    std::atomic<int> asked = 0;
    options.resources.allocate = [&](std::size_t bytes) -> std::shared_ptr<std::byte> {
      if (++asked == nth) throw std::bad_alloc();  // there is memory again afterwards
      return {static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), std::free};
    };
    Pipeline pipeline = fake_pipeline(options);
    Batch batch;
    EXPECT_THROW(while (pipeline.next(batch)){}, std::bad_alloc) << nth;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(asked, nth);
    EXPECT_THROW(pipeline.next(batch), std::bad_alloc) << nth;
  }
}

TEST(PipelineLifetime, WaitsForABatchNoLongerThanItIsTold) {
  FakeStreams streams;
  streams.block_at = 14;
  Pipeline pipeline = fake_pipeline(fake_options(1, 8), streams);
  ASSERT_TRUE(pipeline.wait_for(1min));
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_FALSE(pipeline.wait_for(20ms)) << "the stream stands in the second batch";
  EXPECT_GE(pipeline.statistics().consumer_wait, 20ms);
  pipeline.stop();
  EXPECT_TRUE(pipeline.wait_for(1min)) << "next() throws at once";
}

TEST(PipelineLifetime, NeitherWaitsForARoundThatIsPartlyHandedOutNorBehindTheLastEpoch) {
  PipelineOptions options = fake_options(2, 8);
  options.split.topology.devices = 2;
  options.epochs.count = 1;
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_TRUE(pipeline.wait_for(0s));
  while (pipeline.next(batch)) {
  }
  EXPECT_TRUE(pipeline.wait_for(0s));
}

TEST(PipelineLifetime, ThrowsCancelledWhenItIsStopped) {
  std::stop_source stop;
  PipelineOptions options = fake_options(2, 64);
  options.stop = stop.get_token();
  FakeStreams streams;
  streams.block_at = 14;
  Pipeline pipeline = fake_pipeline(options, streams);
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  Batch batch;
  try {
    pipeline.next(batch);
    FAIL() << "a batch came out of a blocked stream";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

TEST(PipelineLifetime, MovesWhileItRuns) {
  Pipeline first = fake_pipeline(fake_options(2, 8));
  Batch batch;
  ASSERT_TRUE(first.next(batch));
  Pipeline second = std::move(first);
  ASSERT_TRUE(second.next(batch));
  EXPECT_EQ(batch.index, 1);
}

}  // namespace
}  // namespace millrace::pipeline
