// Whole batches: slots that faults cost take the process's next samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using testing::fake_options;
using testing::FakeStreams;
using ::testing::HasSubstr;

constexpr std::int64_t kFilledSamples = 160;

/// Every 11th sample of stream 0, and all of 20 to 29 of every stream.
bool is_lost(const std::string& key) {
  const std::size_t slash = key.rfind('/');
  const int index = std::stoi(key.substr(slash + 1));
  return (index >= 20 && index < 30) || (key.starts_with("0/") && index % 11 == 3);
}

/// 160 samples of 4 streams, a few of them and a run damaged: 43 in all.
PipelineOptions filled_options(BatchOptions batch, Topology topology = {}) {
  PipelineOptions options = fake_options(4, batch.size);
  options.source = testing::fake_source(FakeStreams{});
  options.fields = {testing::number_field(is_lost), RawField{.name = "raw", .suffixes = "bin"}};
  options.batch = batch;
  options.split.topology = topology;
  options.epochs.samples = kFilledSamples;
  options.faults = {.on_fault = wds::OnFault::kSkip, .max_faults = -1, .max_fault_rate = 1};
  return options;
}

std::vector<Batch> filled_batches(const PipelineOptions& options) {
  Pipeline pipeline(options);
  std::vector<Batch> batches;
  for (Batch batch; pipeline.next(batch);) batches.push_back(batch);
  return batches;
}

std::set<std::string> filled_keys(const std::vector<Batch>& batches) {
  std::set<std::string> keys;
  for (const Batch& batch : batches)
    for (std::size_t i = 0; i < batch.valid.size(); ++i) {
      const bool is_new = batch.valid[i] == 0 || keys.insert(batch.keys[i]).second;
      EXPECT_TRUE(is_new) << batch.keys[i];
    }
  return keys;
}

/// The valid slots of each batch.
std::vector<std::int64_t> fullness(const std::vector<Batch>& batches) {
  std::vector<std::int64_t> valid;
  for (const Batch& batch : batches) valid.push_back(batch.num_valid);
  return valid;
}

TEST(Fill, ARunInPartsCountsEachFaultOnce) {
  PipelineOptions options = filled_options({.size = 16, .fill = true});
  std::uint64_t skipped = 0;
  std::uint64_t emitted = 0;
  for (bool more = true; more;) {
    Pipeline part(options);
    Batch batch;
    more = part.next(batch);
    skipped = part.ledger()->skipped();
    emitted = part.ledger()->emitted();
    options.resume =
        std::make_shared<const Position>(Position::from_json(part.position().to_json()));
  }
  EXPECT_EQ(skipped, 43U);
  EXPECT_EQ(emitted, 117U);
}

TEST(Fill, BatchesAreWholeUntilTheEpochsEnd) {
  const std::vector<Batch> masked = filled_batches(filled_options({.size = 16}));
  Pipeline pipeline(filled_options({.size = 16, .fill = true}));
  std::vector<Batch> whole;
  for (Batch batch; pipeline.next(batch);) whole.push_back(batch);
  EXPECT_THAT(fullness(masked), ::testing::Contains(::testing::Lt(16)).Times(::testing::Ge(6)));
  EXPECT_THAT(fullness(whole), ElementsAre(16, 16, 16, 16, 16, 16, 16, 5, 0, 0));
  EXPECT_EQ(filled_keys(whole), filled_keys(masked));
  EXPECT_EQ(pipeline.ledger()->emitted(), 117U);
  EXPECT_EQ(pipeline.ledger()->skipped(), 43U);
  EXPECT_EQ(pipeline.statistics().masked, 43U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].index, static_cast<std::int64_t>(i));
    EXPECT_EQ(whole[i].slots.first, static_cast<std::int64_t>(16 * i));
  }
  EXPECT_THAT(whole[7].valid, ElementsAre(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Fill, ASampleComesWithAllOfItsFields) {
  std::map<std::string, std::vector<std::int64_t>> numbers;
  for (const Batch& batch : filled_batches(filled_options({.size = 16})))
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      const auto values = batch.fields[0].as<std::int64_t>().subspan(2 * i, 2);
      numbers[batch.keys[i]].assign(values.begin(), values.end());
    }
  for (const Batch& batch : filled_batches(filled_options({.size = 16, .fill = true})))
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      if (batch.valid[i] == 0) continue;
      const auto values = batch.fields[0].as<std::int64_t>().subspan(2 * i, 2);
      EXPECT_THAT(values, ::testing::ElementsAreArray(numbers.at(batch.keys[i])));
      std::int64_t number = 0;
      const auto raw = batch.raw("raw").value(static_cast<std::int64_t>(i));
      ASSERT_GE(raw.size(), sizeof number);
      std::memcpy(&number, raw.data(), sizeof number);
      EXPECT_EQ(number, values[0]) << batch.keys[i];
    }
}

TEST(Fill, WithoutFaultsNothingChanges) {
  for (const int devices : {1, 2}) {
    PipelineOptions options = filled_options({.size = 12}, {.devices = devices});
    options.fields = {testing::number_field()};
    Pipeline masked(options);
    options.batch.fill = true;
    Pipeline whole(options);
    EXPECT_EQ(testing::describe_all(whole), testing::describe_all(masked));
  }
}

TEST(Fill, GoesOnAfterAnyBatchOnAnyNumberOfThreads) {
  for (const int devices : {1, 2}) {
    PipelineOptions options =
        filled_options({.size = devices == 1 ? 7 : 4, .fill = true}, {.devices = devices});
    options.epochs.count = 2;
    const auto positions = testing::expect_same_after_any_resume(options);
    EXPECT_THAT(positions, ::testing::Contains(HasSubstr("fills")))
        << "some stand where batches were filled";
    Pipeline two(options);
    options.resources = {.threads = 1, .io_threads = 1, .prefetch = 1};
    Pipeline one(options);
    EXPECT_EQ(testing::describe_all(one), testing::describe_all(two));
  }
}

TEST(Fill, EveryProcessTakesTheSameSteps) {
  std::vector<std::vector<Batch>> given;
  std::set<std::string> seen;
  for (int process = 0; process < 2; ++process) {
    const Topology own = {.process = process, .processes = 2};
    PipelineOptions options = filled_options({.size = 8, .fill = true}, own);
    options.fields = {testing::number_field(
        [](const std::string& key) { return key.starts_with("0/") && key.back() % 2 == 0; })};
    given.push_back(filled_batches(options));
    options.batch.fill = false;
    if (process == 1) {
      Pipeline masked(options);
      options.batch.fill = true;
      Pipeline whole(options);
      EXPECT_EQ(testing::describe_all(whole), testing::describe_all(masked)) << "it lost nothing";
    }
  }
  EXPECT_THAT(fullness(given[0]), ElementsAre(8, 8, 8, 8, 8, 8, 8, 4, 0, 0));
  EXPECT_THAT(fullness(given[1]), ::testing::Each(8));
  EXPECT_EQ(given[0].size(), given[1].size());
}

TEST(Fill, ThePositionsOfProcessesAreJoinedAndContinueThemselves) {
  const auto options_of = [](int process, int processes) {
    return filled_options({.size = 4, .fill = true}, {.process = process, .processes = processes});
  };
  std::vector<std::vector<Batch>> all;
  for (int process = 0; process < 2; ++process)
    all.push_back(filled_batches(options_of(process, 2)));
  ASSERT_EQ(all[0].size(), all[1].size());
  for (std::size_t step = 0; step < all[0].size(); ++step) {
    const Position parts[] = {*all[0][step].position, *all[1][step].position};
    const auto joined =
        std::make_shared<const Position>(Position::from_json(Position::joined(parts).to_json()));
    for (int process = 0; process < 2; ++process) {
      PipelineOptions options = options_of(process, 2);
      options.resume = joined;
      const auto rest = filled_batches(options);
      const auto& own = all[static_cast<std::size_t>(process)];
      ASSERT_EQ(rest.size(), own.size() - step - 1);
      for (std::size_t i = 0; i < rest.size(); ++i)
        EXPECT_EQ(testing::describe(rest[i]), testing::describe(own[step + 1 + i]));
    }
    if (step != 5) continue;  // in the midst of what is filled
    PipelineOptions other = options_of(0, 1);
    other.resume = joined;
    try {
      const Pipeline refused(other);
      ADD_FAILURE() << "one process continued what two have filled";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("only the 2 processes that read them continue"));
    }
  }
}

TEST(Fill, APositionIsRefusedWithoutItOrByOtherBatches) {
  const auto batches = filled_batches(filled_options({.size = 8, .fill = true}));
  const auto refusal = [&](BatchOptions batch) -> std::string {
    PipelineOptions options = filled_options(batch);
    options.resume = batches[1].position;
    try {
      const Pipeline pipeline(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({.size = 8}), HasSubstr("which only `fill` continues"));
  EXPECT_THAT(refusal({.size = 4, .fill = true}),
              HasSubstr("on 1 device with batches of 8; 1 with batches of 4 given"));
  EXPECT_EQ(refusal({.size = 8, .fill = true}), "accepted");
}

TEST(Fill, HowAnEpochEndsIsAsWithout) {
  PipelineOptions options = filled_options({.size = 16, .uneven = Uneven::kPartial, .fill = true});
  options.epochs.samples = 40;
  auto batches = filled_batches(options);
  EXPECT_THAT(fullness(batches), ElementsAre(16, 16, 7));
  EXPECT_EQ(batches.back().size, 7);
  options.batch.uneven = Uneven::kDrop;
  EXPECT_THAT(fullness(filled_batches(options)), ElementsAre(16, 15));
  options.batch.uneven = Uneven::kPad;
  options.epochs.batches = 2;
  EXPECT_THAT(fullness(filled_batches(options)), ElementsAre(16, 15));
}

TEST(Fill, AFaultThatStopsTheEpochIsTheEnd) {
  PipelineOptions options = filled_options({.size = 16, .fill = true});
  options.faults.on_fault = wds::OnFault::kStop;
  const auto batches = filled_batches(options);
  EXPECT_EQ(fullness(batches)[0], 12) << "stream 0's fourth sample";
  for (std::size_t i = 1; i < batches.size(); ++i) EXPECT_EQ(batches[i].num_valid, 0);
}

TEST(Fill, AFaultBeyondTheBudgetEndsTheRun) {
  PipelineOptions options = filled_options({.size = 16, .fill = true});
  options.faults.max_faults = 3;
  Pipeline pipeline(options);
  std::size_t whole = 0;
  const auto read = [&] {
    for (Batch batch; pipeline.next(batch); ++whole) EXPECT_EQ(batch.num_valid, 16);
  };
  EXPECT_THROW(read(), Error);
  EXPECT_EQ(whole, 4U) << "three faults, and the fourth is sought for the fifth batch";
}

}  // namespace
}  // namespace millrace::pipeline
