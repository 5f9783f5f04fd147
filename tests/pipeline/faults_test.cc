#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using testing::describe;
using testing::describe_all;
using ::testing::ElementsAre;
using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;
using testing::number_field;

PipelineOptions with_bad_samples(const std::set<std::string>& bad, const wds::FaultPolicy& policy) {
  PipelineOptions options = fake_options(2, 4);
  options.fields = {number_field([bad](const std::string& key) { return bad.contains(key); })};
  options.faults = policy;
  return options;
}

/// Batches before the fault, and the fault.
std::pair<std::vector<std::string>, Error> run_to_fault(Pipeline& pipeline) {
  std::vector<std::string> before;
  try {
    for (Batch batch; pipeline.next(batch);) before.push_back(describe(batch));
  } catch (const Error& error) {
    return {before, error};
  }
  return {before, Error(ErrorCode::kIo, "no fault came")};
}

TEST(PipelineFaults, ThrowsTheFirstInTheOrderOfBatchesAndRepeatsIt) {
  for (const int threads : {1, 2, 8}) {
    PipelineOptions options = with_bad_samples({"1/0/9", "0/0/13", "1/0/30"}, {});
    options.resources.threads = threads;
    Pipeline pipeline = fake_pipeline(options);
    const auto [before, fault] = run_to_fault(pipeline);
    EXPECT_EQ(before.size(), 4U);
    EXPECT_EQ(fault.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(fault.where().key, "1/0/9");
    EXPECT_EQ(fault.where().url, "fake-1.tar");
    EXPECT_EQ(fault.where().stage, "decode");
    Batch batch;
    EXPECT_THROW(pipeline.next(batch), Error);
    EXPECT_THROW(pipeline.next(batch), Error);
  }
}

TEST(PipelineFaults, LetsBatchesBeforeAFaultOfReadingThrough) {
  FakeStreams streams;
  streams.before_block = [](int stream, std::uint32_t, std::uint64_t index) {
    if (stream == 1 && index == 21) {
      throw Error(ErrorCode::kTruncated, "tar ends inside a member", {.url = "fake-1.tar"});
    }
  };
  Pipeline pipeline = fake_pipeline(fake_options(2, 4), streams);
  const auto [before, fault] = run_to_fault(pipeline);
  EXPECT_EQ(before.size(), 10U);  // 43 samples before the fault
  EXPECT_EQ(fault.code(), ErrorCode::kTruncated);
  EXPECT_EQ(fault.where().url, "fake-1.tar");
}

TEST(PipelineFaults, MasksSkippedSamplesAndWritesThemDown) {
  for (const int threads : {1, 8}) {
    PipelineOptions options =
        with_bad_samples({"1/0/9", "0/0/13", "1/0/30"}, {.on_fault = wds::OnFault::kSkip});
    options.resources.threads = threads;
    Pipeline pipeline = fake_pipeline(options);
    std::int64_t valid = 0;
    std::vector<std::int64_t> short_batches;
    for (Batch batch; pipeline.next(batch);) {
      valid += batch.num_valid;
      if (batch.num_valid < batch.size) short_batches.push_back(batch.index);
    }
    EXPECT_EQ(valid, 197);
    EXPECT_THAT(short_batches, ElementsAre(4, 6, 15));
    std::vector<std::string> keys;
    for (const auto& entry : pipeline.ledger()->entries()) keys.push_back(entry.where.key);
    EXPECT_THAT(keys, ElementsAre("1/0/9", "0/0/13", "1/0/30"));
    EXPECT_EQ(pipeline.ledger()->emitted(), 197U);
    EXPECT_EQ(pipeline.ledger()->skipped(), 3U);
  }
}

TEST(PipelineFaults, EndsWhenTheBudgetOfAnEpochIsUsedUp) {
  PipelineOptions options = with_bad_samples({"1/0/9", "0/0/13", "1/1/3", "1/1/30"},
                                             {.on_fault = wds::OnFault::kSkip, .max_faults = 2});
  options.epochs.count = 2;
  Pipeline within = fake_pipeline(options);
  EXPECT_NO_THROW(describe_all(within));
  options.faults.max_faults = 1;
  Pipeline beyond = fake_pipeline(options);
  const auto [before, fault] = run_to_fault(beyond);
  EXPECT_EQ(fault.code(), ErrorCode::kExhausted);
  EXPECT_EQ(before.size(), 6U);
}

/// The same from the JSON of the position after each batch, by a pipeline of its own.
std::pair<std::size_t, Error> run_in_parts(PipelineOptions options) {
  std::size_t batches = 0;
  for (;; ++batches) {
    Pipeline part = fake_pipeline(options);
    Batch batch;
    try {
      if (!part.next(batch)) return {batches, Error(ErrorCode::kIo, part.ledger()->skipped_text())};
    } catch (const Error& error) {
      return {batches, error};
    }
    options.resume =
        std::make_shared<const Position>(Position::from_json(part.position().to_json()));
  }
}

TEST(PipelineFaults, ARunInPartsHasTheEpochsBudgetAndCounts) {
  PipelineOptions options = with_bad_samples({"1/0/9", "0/0/13", "1/0/30"},
                                             {.on_fault = wds::OnFault::kSkip, .max_faults = 1});
  const auto [batches, fault] = run_in_parts(options);
  EXPECT_EQ(fault.code(), ErrorCode::kExhausted);
  EXPECT_EQ(batches, 6U) << "as in one part";
  options.faults.max_faults = 3;
  EXPECT_EQ(run_in_parts(options).second.message(), "3 samples");
}

/// Of each batch that ends a round: what is known there, whatever has been read ahead.
std::vector<std::string> accounts_of(const PipelineOptions& options) {
  Pipeline pipeline = fake_pipeline(options);
  std::vector<std::string> accounts;
  while (!pipeline.finished()) {
    for (Batch batch; pipeline.next(batch);) {
      if ((batch.index + 1) % options.split.topology.devices != 0) continue;
      const Position::Account account = batch.position->account();
      accounts.push_back(std::to_string(account.emitted) + "+" +
                         std::to_string(account.num_skipped()));
    }
  }
  return accounts;
}

TEST(PipelineFaults, APositionHasWhatTheBatchesBeforeItCost) {
  for (const int prefetch : {1, 60}) {
    PipelineOptions options =
        with_bad_samples({"1/0/9", "0/0/13", "1/0/30"}, {.on_fault = wds::OnFault::kSkip});
    options.resources.prefetch = prefetch;
    std::vector<std::string> accounts = accounts_of(options);
    ASSERT_EQ(accounts.size(), 50U);
    EXPECT_EQ(accounts[3], "16+0");
    EXPECT_EQ(accounts[4], "19+1");
    EXPECT_EQ(accounts[6], "26+2");
    EXPECT_EQ(accounts.back(), "197+3");
    options.split.topology.devices = 2;
    options.epochs.count = 2;
    accounts = accounts_of(options);
    ASSERT_EQ(accounts.size(), 50U);
    EXPECT_EQ(accounts[2], "23+1");
    EXPECT_EQ(accounts[25], "8+0") << "the next epoch's";
  }
}

TEST(PipelineFaults, StopsTheEpochAtTheFaultByPolicy) {
  PipelineOptions options = with_bad_samples({"1/0/9"}, {.on_fault = wds::OnFault::kStop});
  options.epochs.count = 2;
  Pipeline pipeline = fake_pipeline(options);
  std::vector<std::string> keys;
  for (Batch batch; pipeline.next(batch);) {
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      if (batch.valid[i]) keys.push_back(batch.keys[i]);
    }
  }
  EXPECT_EQ(keys.size(), 19U);
  EXPECT_EQ(keys.back(), "0/0/9");
  std::int64_t second = 0;
  for (Batch batch; pipeline.next(batch);) second += batch.num_valid;
  EXPECT_EQ(second, 200);
  EXPECT_TRUE(pipeline.finished());
}

TEST(PipelineFaults, GivesZerosForABatchOfSkippedSamplesOnly) {
  PipelineOptions options =
      with_bad_samples({"0/0/0", "1/0/0", "0/0/1", "1/0/1"}, {.on_fault = wds::OnFault::kSkip});
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.num_valid, 0);
  for (const std::int64_t value : batch.field("number").as<std::int64_t>()) EXPECT_EQ(value, 0);
}

TEST(PipelineFaults, NoMemoryEndsTheRunWhateverThePolicySays) {
  PipelineOptions options = fake_options(1, 4);
  options.faults = {.on_fault = wds::OnFault::kSkip};
  options.fields = {FunctionField{
      .name = "large",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [](const wds::Sample& sample, const decode::SampleId&, std::span<std::byte>) {
        if (sample.key == "0/0/9") throw std::bad_alloc();
      }}};
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  EXPECT_THROW(
      {
        while (pipeline.next(batch)) {
        }
      },
      std::bad_alloc);
  EXPECT_THROW(pipeline.next(batch), std::bad_alloc);
  EXPECT_EQ(pipeline.ledger()->skipped(), 0U);
}

TEST(PipelineFaults, AnEpochWithoutASampleIsAnErrorAndRepeatsIt) {
  PipelineOptions options = fake_options(2, 4);
  options.fields = {
      number_field([](const std::string& key) { return key.find("/1/") != key.npos; })};
  options.faults = {.on_fault = wds::OnFault::kSkip};
  options.epochs.count = 3;
  Pipeline pipeline = fake_pipeline(options);
  for (Batch batch; pipeline.next(batch);) continue;
  const auto [before, fault] = run_to_fault(pipeline);
  EXPECT_EQ(fault.code(), ErrorCode::kNotFound);
  EXPECT_THAT(fault.message(),
              ::testing::StartsWith("epoch 1 has no sample: skipped 200 samples, the first: "));
  Batch batch;
  EXPECT_THROW(pipeline.next(batch), Error);
}

TEST(PipelineFaults, AnEmptySetIsAnErrorButAnEmptyShareOfOneRankIsNot) {
  FakeStreams empty;
  empty.length = [](int, std::uint32_t) { return 0; };
  PipelineOptions options = fake_options(2, 4);
  Pipeline alone = fake_pipeline(options, empty);
  EXPECT_EQ(run_to_fault(alone).second.message(), "epoch 0 has no sample");
  options.split = {.topology = {.process = 1, .processes = 2}, .workers = 1};
  Pipeline one_of_two = fake_pipeline(options, empty);
  EXPECT_EQ(run_to_fault(one_of_two).second.message(), "no fault came");
}

TEST(PipelineFaults, PassesOnWhatAUserFunctionThrows) {
  PipelineOptions options = fake_options(1, 4);
  options.fields = {
      FunctionField{.name = "odd",
                    .output = {decode::DType::kUInt8, {1}},
                    .decode = [](const wds::Sample&, const decode::SampleId&,
                                 std::span<std::byte>) { throw std::runtime_error("my own"); }}};
  Pipeline pipeline = fake_pipeline(options);
  const auto [before, fault] = run_to_fault(pipeline);
  EXPECT_TRUE(before.empty());
  EXPECT_EQ(fault.message(), "my own");
  EXPECT_EQ(fault.where().key, "0/0/0");
}

}  // namespace
}  // namespace millrace::pipeline
