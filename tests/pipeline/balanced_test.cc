// Streams of equal length, by the indexes beside the shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

/// Shards of these many samples, with indexes; sample i of shard s has the key "s-i".
class CountedShards {
 public:
  explicit CountedShards(const std::vector<int>& counts) {
    for (const int count : counts) write(count);
  }
  const std::vector<std::string>& urls() const { return urls_; }
  const std::string& path(std::size_t shard) const { return urls_[shard]; }
  std::string index(std::size_t shard) const { return wds::index_url(urls_[shard]); }

 private:
  void write(int count) {
    const std::string shard = std::to_string(urls_.size());
    TarBuilder tar;
    for (int i = 0; i < count; ++i)
      tar.file(shard + "-" + std::to_string(i) + ".cls", std::to_string(i % 10));
    urls_.push_back(folder_ / ("x-" + shard + ".tar"));
    testing::write_file(urls_.back(), tar.end().bytes());
    wds::write_index(wds::build_index(io::UrlOpener(), urls_.back()), index(urls_.size() - 1));
  }

  TempDir folder_;
  std::vector<std::string> urls_;
};

Pipeline::Builder builder_of(const CountedShards& shards) {
  return Pipeline::Builder()
      .shards(shards.urls())
      .indexed()
      .shuffle({.shards = true, .buffer_samples = 20, .seed = 3})
      .field(LabelField{.classes = 10})
      .batch({.size = 8})
      .resources({.threads = 2});
}

std::vector<std::string> keys_of(Pipeline& pipeline) {
  std::vector<std::string> keys;
  for (Batch batch; pipeline.next(batch);)
    std::copy_if(batch.keys.begin(), batch.keys.end(), std::back_inserter(keys),
                 [](const std::string& key) { return !key.empty(); });
  return keys;
}

Error fault_of(Pipeline::Builder builder_of) {
  try {
    Pipeline pipeline = builder_of.build();
    keys_of(pipeline);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kCancelled, "no fault");
}

TEST(BalancedStreams, GiveEverySampleOnceAndProcessesDifferByAtMostOne) {
  const CountedShards shards({5, 0, 31, 2, 9});
  for (const int processes : {1, 2, 3}) {
    for (const int workers : {1, 4}) {
      std::multiset<std::string> seen;
      std::set<std::size_t> lengths;
      for (int process = 0; process < processes; ++process) {
        Pipeline pipeline = builder_of(shards)
                                .split({.topology = {.process = process, .processes = processes},
                                        .workers = workers})
                                .build();
        const auto keys = keys_of(pipeline);
        seen.insert(keys.begin(), keys.end());
        lengths.insert(keys.size());
        EXPECT_EQ(samples_per_epoch(pipeline.options()), keys.size());
      }
      EXPECT_EQ(seen.size(), 47U);
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 47U);
      EXPECT_LE(*lengths.rbegin() - *lengths.begin(), 1U) << processes << " x " << workers;
    }
  }
}

TEST(BalancedStreams, OneShardIsEnoughForManyStreams) {
  const CountedShards shards({10});
  for (const int streams : {4, 20}) {
    Pipeline pipeline = builder_of(shards).split({.workers = streams}).build();
    const auto keys = keys_of(pipeline);
    EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 10U) << streams;
    EXPECT_EQ(keys.size(), 10U);
  }
  EXPECT_THAT(
      fault_of(builder_of(shards).split({.workers = 4}).indexed(false).scan(false)).message(),
      HasSubstr("1 shard is too few for 4 streams"));
}

TEST(BalancedStreams, TheGlobalOrderIsTheSameForEveryNumberOfProcessesThatDividesThem) {
  const CountedShards shards({7, 12, 4});
  const auto in_turn = [&](int processes) {
    std::vector<std::vector<std::string>> shares;
    for (int process = 0; process < processes; ++process) {
      Pipeline pipeline =
          builder_of(shards)
              .split({.topology = {.process = process, .processes = processes}, .streams = 4})
              .build();
      shares.push_back(keys_of(pipeline));
    }
    std::vector<std::string> all;
    for (std::size_t slot = 0; slot < 23; ++slot)
      all.push_back(shares[slot % shares.size()].at(slot / shares.size()));
    return all;
  };
  EXPECT_EQ(in_turn(2), in_turn(1));
  EXPECT_EQ(in_turn(4), in_turn(1));
}

TEST(BalancedStreams, ResumeInMidEpoch) {
  const CountedShards shards({40, 13, 66});
  const auto make = [&] {
    return builder_of(shards)
        .split({.topology = {.process = 1, .processes = 2}, .workers = 3})
        .epochs({.count = 2});
  };
  const auto positions = testing::expect_same_after_any_resume(make().options());
  ASSERT_EQ(positions.size(), 18U);
  EXPECT_THAT(fault_of(make()
                           .shards({"x-0.tar", "x-1.tar", "x-2.tar"})
                           .scan(false)
                           .resume(Position::from_json(positions[3])))
                  .message(),
              HasSubstr("streams"));
}

TEST(BalancedStreams, APositionOfOtherCountsDoesNotFit) {
  const CountedShards shards({20, 20});
  Pipeline balanced = builder_of(shards).split({.workers = 2}).build();
  Batch batch;
  ASSERT_TRUE(balanced.next(batch));
  const auto whole = [&] {
    return builder_of(shards).split({.workers = 2}).indexed(false).resume(*batch.position);
  };
  EXPECT_THAT(fault_of(whole().scan(false)).message(), HasSubstr("indexes"));
  EXPECT_EQ(fault_of(whole()).code(), ErrorCode::kCancelled) << "a scan finds the same counts";
}

TEST(BalancedStreams, AnEpochOfAllSamplesGivesEachOnce) {
  const CountedShards shards({5, 31, 7});
  Pipeline pipeline = builder_of(shards)
                          .shuffle({.shards = true})
                          .split({.workers = 4})
                          .epochs({.count = 1, .samples = 43})
                          .build();
  const auto keys = keys_of(pipeline);
  EXPECT_EQ(keys.size(), 43U);
  EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 43U);
}

TEST(BalancedStreams, AFlippedByteIsAFaultWithUrlKeyAndOffset) {
  const CountedShards shards({6, 6});
  std::string bytes = testing::read_file(shards.path(1));
  bytes[1024 * 3 + 512] ^= 1;
  testing::write_file(shards.path(1), bytes);
  const Error fault = fault_of(builder_of(shards));
  EXPECT_EQ(fault.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(fault.where().url, shards.path(1));
  EXPECT_EQ(fault.where().key, "1-3");
  EXPECT_EQ(fault.where().offset, 1024U * 3 + 512);
}

TEST(BalancedStreams, WhereOneShardHasNoIndexWholeShardsAreDividedAndTheOthersChecked) {
  const CountedShards shards({6, 6, 6});
  std::filesystem::remove(shards.index(0));
  Pipeline pipeline = builder_of(shards).split({.workers = 3}).scan(false).build();
  EXPECT_EQ(pipeline.options().found.counts, nullptr);
  EXPECT_EQ(keys_of(pipeline).size(), 18U);
  std::string bytes = testing::read_file(shards.path(2));
  bytes[512] ^= 1;
  testing::write_file(shards.path(2), bytes);
  EXPECT_EQ(fault_of(builder_of(shards)).where().key, "2-0");
}

TEST(ScannedStreams, HaveTheOrderOfIndexes) {
  const CountedShards shards({40, 0, 13, 66, 1, 150});
  for (const int processes : {1, 2, 3}) {
    for (int process = 0; process < processes; ++process) {
      const auto keys = [&](bool indexed, bool some) {
        if (some) std::filesystem::rename(shards.index(3), shards.index(3) + ".away");
        Pipeline pipeline =
            builder_of(shards)
                .indexed(indexed)
                .split({.topology = {.process = process, .processes = processes}, .streams = 6})
                .epochs({.first = 4, .count = 1})
                .build();
        auto found = keys_of(pipeline);
        if (some) std::filesystem::rename(shards.index(3) + ".away", shards.index(3));
        EXPECT_EQ(batches_per_epoch(pipeline.options()), (found.size() + 7) / 8);
        return found;
      };
      const auto by_index = keys(true, false);
      EXPECT_EQ(keys(false, false), by_index);
      EXPECT_EQ(keys(true, true), by_index) << "one shard is scanned";
    }
  }
}

TEST(ScannedStreams, ResumeInMidEpochWithIndexesOrWithout) {
  const CountedShards shards({40, 13, 66});
  const auto make = [&](bool indexed) {
    return builder_of(shards).indexed(indexed).split({.workers = 3}).epochs({.count = 2});
  };
  testing::expect_same_after_any_resume(
      make(false)
          .shuffle({.shards = true, .buffer_samples = 20, .open_shards = 3, .seed = 3})
          .options());
  const auto positions = testing::expect_same_after_any_resume(make(false).options());
  ASSERT_EQ(positions.size(), 32U);
  const auto rest = [&](bool indexed) {
    Pipeline pipeline = make(indexed).resume(Position::from_json(positions[4])).build();
    return keys_of(pipeline);
  };
  EXPECT_EQ(rest(true), rest(false));
}

TEST(ScannedStreams, DamageIsReportedWhenItIsReadAndCostsNothingElse) {
  const CountedShards shards({30, 30, 30});
  std::filesystem::resize_file(shards.path(1), 20 * 1024 + 700);  // within the 21st sample
  for (const int workers : {1, 2, 5}) {
    const auto make = [&] { return builder_of(shards).indexed(false).split({.workers = workers}); };
    const Error fault = fault_of(make());
    EXPECT_EQ(fault.code(), ErrorCode::kTruncated);
    EXPECT_EQ(fault.where().url, shards.path(1));
    EXPECT_EQ(fault.where().key, "1-20");
    Pipeline pipeline = make().faults({.on_fault = wds::OnFault::kSkip}).build();
    const auto keys = keys_of(pipeline);
    EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 80U);
    EXPECT_EQ(keys.size(), 80U);
    EXPECT_EQ(pipeline.ledger()->skipped(), 1U);
    EXPECT_EQ(pipeline.ledger()->unknown_shards(), 1U) << "nobody knows what was behind";
    const auto listed = [](const std::string&) { return 30; };
    Pipeline known = make().faults({.on_fault = wds::OnFault::kSkip, .samples_of = listed}).build();
    EXPECT_EQ(keys_of(known).size(), 80U);
    EXPECT_EQ(known.ledger()->skipped(), 10U);
    EXPECT_EQ(known.ledger()->unknown_shards(), 0U);
  }
}

TEST(ScannedStreams, WithoutAScanItsCostIsLogged) {
  const CountedShards shards({20, 10});
  const TempDir dir;
  const auto said = [&](const wds::FaultPolicy& policy) {
    with_counts(builder_of(shards)
                    .indexed(false)
                    .scan(false)
                    .faults(policy)
                    .batch({.size = 5})
                    .split({.topology = {.processes = 2}})
                    .log(Log::to_file(dir / "log"))
                    .options());
    std::string text = testing::read_file(dir / "log");
    std::filesystem::remove(dir / "log");
    return text;
  };
  EXPECT_THAT(said({}), HasSubstr("how many slots will be masked is unknown"));
  const auto listed = [&](const std::string& url) { return url == shards.path(0) ? 20 : 10; };
  EXPECT_THAT(said({.samples_of = listed}), HasSubstr("25.0 % of the epoch's slots"));
}

TEST(PermutedStreams, AreTheSameForEveryNumberOfStreamsWithIndexesOrWithout) {
  const CountedShards shards({40, 13, 66});
  const auto make = [&](bool indexed, int streams) {
    return builder_of(shards)
        .indexed(indexed)
        .shuffle({.seed = 3, .order = wds::Order::kPermutation})
        .split({.workers = streams})
        .epochs({.count = 2});
  };
  const auto keys = [&](bool indexed, int streams) {
    Pipeline pipeline = make(indexed, streams).build();
    EXPECT_EQ(batches_per_epoch(pipeline.options()), 15);
    return keys_of(pipeline);
  };
  const auto expected = keys(true, 1);
  EXPECT_EQ(expected.size(), 119U);
  EXPECT_EQ(keys(true, 4), expected);
  EXPECT_EQ(keys(false, 3), expected);
  EXPECT_EQ(testing::expect_same_after_any_resume(make(true, 3).options()).size(), 32U);
  EXPECT_THAT(fault_of(make(false, 1).scan(false)).message(), HasSubstr("no index"));
}

TEST(BalancedStreams, ADamagedIndexIsAFaultWhereOneIsRequired) {
  const CountedShards shards({6, 6});
  testing::write_file(shards.index(1), "{\"count\": \"many\"");
  EXPECT_EQ(fault_of(builder_of(shards).faults({.require_index = true})).where().url,
            shards.index(1));
  Pipeline pipeline = builder_of(shards).indexed(false).build();
  EXPECT_EQ(keys_of(pipeline).size(), 12U);
}

TEST(BalancedStreams, ADamagedIndexCostsNoSample) {
  const CountedShards shards({6, 30, 6, 9});
  Pipeline sound = builder_of(shards).split({.workers = 3}).build();
  const auto expected = keys_of(sound);
  const std::string index = testing::read_file(shards.index(1));
  // Without the shard's count the shard is scanned, or else whole shards are divided, unless a
  // manifest has it.
  testing::write_file(shards.index(1), "{\"count\": \"many\"");
  Pipeline scanned = builder_of(shards).split({.workers = 3}).build();
  EXPECT_EQ(keys_of(scanned), expected);
  Pipeline whole = builder_of(shards).split({.workers = 3}).scan(false).build();
  EXPECT_EQ(whole.options().found.counts, nullptr);
  EXPECT_EQ(keys_of(whole).size(), 51U);
  const wds::FaultPolicy listed{.samples_of = [](const std::string&) { return 30; }};
  Pipeline balanced = builder_of(shards).split({.workers = 3}).faults(listed).build();
  EXPECT_EQ(keys_of(balanced), expected);
  // With its count the streams and the order are unchanged.
  testing::write_file(shards.index(1), index.substr(0, index.size() - 10));
  for (const wds::OnFault policy : {wds::OnFault::kFail, wds::OnFault::kSkip}) {
    Pipeline counted =
        builder_of(shards).split({.workers = 3}).faults({.on_fault = policy}).build();
    EXPECT_EQ(keys_of(counted), expected);
    EXPECT_EQ(counted.statistics().skipped, 0U);
    EXPECT_GE(counted.ledger()->warnings(), 1U);
  }
}

TEST(BalancedStreams, SkipsAreCountedInSamples) {
  const CountedShards shards({6, 30, 6, 9});
  std::filesystem::resize_file(shards.path(1), 10 * 1024);
  std::filesystem::remove(shards.path(3));
  Pipeline pipeline = builder_of(shards)
                          .split({.workers = 3})
                          .faults({.on_fault = wds::OnFault::kSkip})
                          .epochs({.count = 2})
                          .build();
  for (const std::uint64_t epochs : {1U, 2U}) {
    EXPECT_EQ(keys_of(pipeline).size(), 22U) << "the tenth is whole, as its index says";
    EXPECT_EQ(pipeline.statistics().skipped, 29 * epochs) << "what is read ahead is not counted";
    EXPECT_EQ(pipeline.ledger()->skipped(), 29U);
  }
  EXPECT_EQ(fault_of(builder_of(shards)
                         .split({.workers = 3})
                         .faults({.on_fault = wds::OnFault::kSkip, .max_faults = 28}))
                .code(),
            ErrorCode::kExhausted);
}

TEST(BalancedStreams, WhatNoFieldAsksForIsNotHeld) {
  const CountedShards shards({4, 4});
  TarBuilder tar;
  for (int i = 0; i < 4; ++i) {
    tar.file("1-" + std::to_string(i) + ".bin", std::string(3 << 20, 'x'));
    tar.file("1-" + std::to_string(i) + ".cls", "1");
  }
  testing::write_file(shards.path(1), tar.end().bytes());
  wds::write_index(wds::build_index(io::UrlOpener(), shards.path(1)), shards.index(1),
                   io::Replace::kAtomically);
  Pipeline pipeline = builder_of(shards).build();
  EXPECT_EQ(keys_of(pipeline).size(), 8U);
  EXPECT_EQ(pipeline.statistics().stage("read").bytes, 8U);
}

TEST(BalancedStreams, AnEpochsBatchesAreKnownBeforeItIsRead) {
  const CountedShards shards({20, 13});
  const auto batches = [&](Pipeline::Builder builder_of) {
    return batches_per_epoch(with_counts(builder_of.options()));
  };
  EXPECT_EQ(batches(builder_of(shards)), 5);
  EXPECT_EQ(batches(builder_of(shards).batch({.size = 8, .uneven = Uneven::kDrop})), 4);
  EXPECT_EQ(batches(builder_of(shards).split({.topology = {.process = 1, .processes = 2}})), 3)
      << "as many as process 0";
  EXPECT_EQ(batches(builder_of(shards).epochs({.samples = 100})), 13);
  EXPECT_EQ(batches(builder_of(shards).epochs({.batches = 3})), 3);
  EXPECT_EQ(batches(builder_of(shards).indexed(false)), 5);
  EXPECT_EQ(batches(builder_of(shards).indexed(false).scan(false)), std::nullopt);
  EXPECT_EQ(batches(builder_of(shards).epochs({.batches = 3, .resampled = true})), 3);
}

}  // namespace
}  // namespace millrace::pipeline
