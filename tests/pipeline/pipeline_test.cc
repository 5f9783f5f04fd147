#include "pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using testing::describe_all;
using ::testing::ElementsAre;
using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;
using ::testing::HasSubstr;

std::vector<std::string> valid_keys(Pipeline& pipeline) {
  std::vector<std::string> keys;
  for (Batch batch; pipeline.next(batch);) {
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      if (batch.valid[i]) keys.push_back(batch.keys[i]);
    }
  }
  return keys;
}

FakeStreams uneven() {
  return {.length = [](int stream, std::uint32_t epoch) {
    return 20 + 13 * stream + static_cast<int>(epoch);
  }};
}

TEST(Pipeline, TakesStreamsInTurnAndContinuesWithoutThoseThatEnd) {
  Pipeline pipeline = fake_pipeline(
      fake_options(3, 4), {.length = [](int stream, std::uint32_t) { return stream + 1; }});
  EXPECT_THAT(valid_keys(pipeline),
              ElementsAre("0/0/0", "1/0/0", "2/0/0", "1/0/1", "2/0/1", "2/0/2"));
}

TEST(Pipeline, GivesTheSameBitsForAnyThreadsAndDepths) {
  const auto run = [](int threads, int io_threads, int prefetch, std::size_t block) {
    PipelineOptions options = fake_options(5, 8);
    options.epochs.count = 2;
    options.resources = {.threads = threads, .io_threads = io_threads, .prefetch = prefetch};
    FakeStreams streams = uneven();
    streams.block_samples = block;
    Pipeline pipeline = fake_pipeline(options, streams);
    return describe_all(pipeline);
  };
  const auto expected = run(1, 1, 1, 64);
  EXPECT_EQ(expected.size(), 61U);
  for (const int threads : {1, 2, 8}) {
    for (const int io_threads : {1, 3}) {
      for (const int prefetch : {1, 7}) {
        EXPECT_EQ(run(threads, io_threads, prefetch, 3), expected)
            << threads << " " << io_threads << " " << prefetch;
      }
    }
  }
}

TEST(Pipeline, ProcessesTogetherGiveTheSequenceOfOne) {
  const auto keys = [](int processes, int process) {
    PipelineOptions options = fake_options(4, 4);
    options.split = {.topology = {.process = process, .processes = processes}, .streams = 4};
    Pipeline pipeline = fake_pipeline(options);
    return valid_keys(pipeline);
  };
  const auto all = keys(1, 0);
  const auto first = keys(2, 0);
  const auto second = keys(2, 1);
  ASSERT_EQ(all.size(), first.size() + second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(all[2 * i], first[i]);
    EXPECT_EQ(all[2 * i + 1], second[i]);
  }
}

TEST(Pipeline, MasksTheLastBatchWithRepeatedSamples) {
  Pipeline pipeline =
      fake_pipeline(fake_options(1, 4), {.length = [](int, std::uint32_t) { return 6; }});
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.num_valid, 4);
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.valid, ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(batch.keys, ElementsAre("0/0/4", "0/0/5", "", ""));
  const auto numbers = batch.field("number").as<std::int64_t>();
  EXPECT_THAT(std::vector<std::int64_t>({numbers[0], numbers[2], numbers[4], numbers[6]}),
              ElementsAre(4, 5, 4, 5));
  EXPECT_FALSE(pipeline.next(batch));
  EXPECT_TRUE(pipeline.finished());
  EXPECT_FALSE(pipeline.next(batch));
}

TEST(Pipeline, LeavesTheLastBatchPartialOrOutByOption) {
  const FakeStreams six = {.length = [](int, std::uint32_t) { return 6; }};
  PipelineOptions options = fake_options(1, 4);
  options.batch.uneven = Uneven::kPartial;
  Pipeline partial = fake_pipeline(options, six);
  Batch batch;
  ASSERT_TRUE(partial.next(batch));
  ASSERT_TRUE(partial.next(batch));
  EXPECT_EQ(batch.size, 2);
  EXPECT_EQ(batch.field("number").spec.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_FALSE(partial.next(batch));

  options.batch = {.size = 4, .uneven = Uneven::kDrop};
  Pipeline dropped = fake_pipeline(options, six);
  EXPECT_EQ(describe_all(dropped).size(), 2U);
  EXPECT_EQ(dropped.statistics().dropped, 2U);
}

TEST(Pipeline, RunsEpochAfterEpochAndReadsTheNextOneAhead) {
  PipelineOptions options = fake_options(2, 10);
  options.epochs = {.first = 3, .count = 2};
  const FakeStreams streams = {.length = [](int, std::uint32_t) { return 10; }};
  Pipeline pipeline = fake_pipeline(options, streams);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.keys[0], "0/3/0");
  // The next epoch was not requested yet, but its blocks are read: 2 of each stream and epoch.
  while (*streams.blocks_read < 8) std::this_thread::yield();
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_FALSE(pipeline.next(batch));
  EXPECT_FALSE(pipeline.finished());
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.epoch, 4U);
  EXPECT_EQ(batch.index, 0);
  EXPECT_EQ(batch.keys[0], "0/4/0");
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_FALSE(pipeline.next(batch));
  EXPECT_TRUE(pipeline.finished());
}

TEST(Pipeline, KeepsAPromisedNumberOfBatches) {
  PipelineOptions options = fake_options(2, 8);
  options.epochs = {.count = 3, .batches = 5};
  // 50, 25 and 10 samples: more than 5 batches, fewer, and much fewer.
  Pipeline pipeline = fake_pipeline(options, {.length = [](int, std::uint32_t epoch) {
                                      return epoch == 0 ? 25 : epoch == 1 ? 12 : 5;
                                    }});
  std::vector<std::int64_t> valid;
  do {
    std::int64_t index = 0;
    for (Batch batch; pipeline.next(batch); ++index) {
      EXPECT_EQ(batch.index, index);
      EXPECT_EQ(batch.size, 8);
      EXPECT_EQ(batch.field("number").data.size(), 128U);
      valid.push_back(batch.num_valid);
    }
    EXPECT_EQ(index, 5);
  } while (!pipeline.finished());
  EXPECT_THAT(valid, ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 8, 2, 0, 0, 0));
}

TEST(Pipeline, GivesFullyMaskedBatchesForAsLongAsOthersStep) {
  Pipeline pipeline =
      fake_pipeline(fake_options(1, 4), {.length = [](int, std::uint32_t) { return 4; }});
  const Batch zeros = pipeline.masked_batch();
  EXPECT_EQ(zeros.num_valid, 0);
  EXPECT_EQ(zeros.field("number").as<std::int64_t>()[3], 0);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  const Batch last = batch;
  EXPECT_FALSE(pipeline.next(batch));
  const Batch masked = pipeline.masked_batch();
  EXPECT_THAT(masked.valid, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(masked.keys, ElementsAre("", "", "", ""));
  EXPECT_TRUE(std::ranges::equal(masked.field("number").data, last.field("number").data));
  const std::vector<std::int64_t> before(last.field("number").as<std::int64_t>().begin(),
                                         last.field("number").as<std::int64_t>().end());
  std::ranges::fill(masked.field("number").data, std::byte{7});
  EXPECT_TRUE(std::ranges::equal(last.field("number").as<std::int64_t>(), before))
      << "whoever writes to the masked batch changes samples of the one before";
}

TEST(Pipeline, MaskedBatchesAreFullBehindAPartialOneToo) {
  PipelineOptions options = fake_options(1, 4);
  options.batch.uneven = Uneven::kPartial;
  options.epochs.batches = 4;
  Pipeline pipeline = fake_pipeline(options, {.length = [](int, std::uint32_t) { return 6; }});
  std::vector<std::int64_t> sizes;
  for (Batch batch; pipeline.next(batch);) sizes.push_back(batch.size);
  EXPECT_THAT(sizes, ElementsAre(4, 2, 4, 4)) << "as after a resume, which has no batch before";
}

TEST(Pipeline, HandsOutBatchesThatOutliveIt) {
  Batch batch;
  {
    Pipeline pipeline = fake_pipeline(fake_options(1, 4));
    ASSERT_TRUE(pipeline.next(batch));
  }
  EXPECT_EQ(batch.field("number").as<std::int64_t>()[2], 1);
}

TEST(Pipeline, ContinuesForAConsumerThatKeepsItsBatches) {
  Pipeline pipeline = fake_pipeline(fake_options(2, 2));
  std::vector<Batch> kept;
  for (Batch batch; pipeline.next(batch);) kept.push_back(batch);
  ASSERT_EQ(kept.size(), 100U);
  EXPECT_EQ(kept[50].field("number").as<std::int64_t>()[0], 50);
}

TEST(Pipeline, ReusesTheBuffersOfBatchesThatWereLetGo) {
  PipelineOptions options = fake_options(1, 4);
  options.resources.prefetch = 1;
  Pipeline pipeline = fake_pipeline(options, {.length = [](int, std::uint32_t) { return 4000; }});
  for (Batch batch; pipeline.next(batch);) {
  }
  EXPECT_LE(pipeline.statistics().peak_held_bytes, pipeline.memory_bound_bytes());
  const auto& plan = pipeline.options();
  EXPECT_EQ(plan.resources.prefetch, 1);
}

TEST(Pipeline, AlignsEveryField) {
  PipelineOptions options = fake_options(1, 3);
  auto other = std::get<FunctionField>(testing::number_field());
  other.name = "other";
  options.fields.push_back(other);
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  for (const BatchField& field : batch.fields) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(field.data.data()) % 64, 0U) << field.name;
  }
}

// ---- Options that are refused, and the memory budget ----

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
}

TEST(PipelineOptions, HaveBoundsThatKeepTheMachine) {
  constexpr int kTooMany = std::numeric_limits<int>::max();
  EXPECT_THAT(refusal([](auto& o) { o.resources.threads = kMaxThreads + 1; }),
              HasSubstr("threads 1025: from 0 to 1024"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.io_threads = kTooMany; }),
              HasSubstr("I/O threads"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.autotune.most_threads = kTooMany; }),
              HasSubstr("at most threads"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.autotune.most_io_threads = kTooMany; }),
              HasSubstr("at most I/O threads"));
  EXPECT_THAT(refusal([](auto& o) { o.resources.prefetch = kTooMany; }), HasSubstr("prefetch"));
  EXPECT_THAT(refusal([](auto& o) { o.shuffle.open_shards = kTooMany; }), HasSubstr("open shards"));
  EXPECT_THAT(refusal([](auto& o) { o.shuffle.buffer_samples = -1; }), HasSubstr("buffer of -1"));
  EXPECT_THAT(refusal([](auto& o) { o.split.streams = kTooMany; }), HasSubstr("at most 1048576"));
  EXPECT_THAT(refusal([](auto& o) { o.split.streams = 0, o.split.workers = kTooMany; }),
              HasSubstr("at most 1048576"));
  EXPECT_THAT(refusal([](auto& o) { o.batch.size = std::int64_t{1} << 60; }),
              HasSubstr("from 1 to 16777216"));
}

TEST(PipelineOptions, HaveShapesOfArraysThatCanBe) {
  const auto shape = [](std::vector<std::int64_t> sizes) {
    return refusal([&](auto& o) { o.fields = {ArrayField{.output = {.shape = sizes}}}; });
  };
  EXPECT_THAT(shape({-1, 5}), HasSubstr("no negative sizes"));
  EXPECT_THAT(shape({std::int64_t{1} << 40, std::int64_t{1} << 40}), HasSubstr("any memory"));
  EXPECT_THAT(shape({3, std::numeric_limits<std::int64_t>::max()}), HasSubstr("any memory"));
}

TEST(PipelineOptions, RefuseBatchesThatTheMachineCannotHold) {
  const auto huge = [](PipelineOptions& o) {
    o.fields = {ArrayField{.name = "x", .output = {.shape = {1 << 25}}}};
    o.batch.size = 1 << 20;
  };
  EXPECT_THAT(refusal(huge), HasSubstr("more than the memory of this machine"));
  const auto many = [](PipelineOptions& o) {
    o.fields = {ArrayField{.name = "x", .output = {.shape = {1 << 25}}}};
    o.resources.prefetch = 1 << 16;
  };
  EXPECT_THAT(refusal(many), HasSubstr("less prefetch"));
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
