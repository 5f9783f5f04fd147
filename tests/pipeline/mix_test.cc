// Mixes in a pipeline: the same batches however they are divided, positions, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/data_identity.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

/// Sets a (5 shards of 40) and b (2 shards of 30) without indexes.
class Sets {
 public:
  Sets() {
    for (int shard = 0; shard < 5; ++shard) add("a", shard, 40);
    for (int shard = 0; shard < 2; ++shard) add("b", shard, 30);
  }
  std::string spec(const std::string& set) const {
    return folder_ / (set + "-{0.." + (set == "a" ? "4" : "1") + "}.tar");
  }

  Pipeline::Builder mixed(Topology topology = {}, int threads = 2) const {
    return Pipeline::Builder()
        .mix(0.75, spec("a"))
        .mix(0.25, spec("b"))
        .split({.topology = topology, .streams = 4})
        .shuffle({.shards = true, .buffer_samples = 16, .seed = 5})
        .field(LabelField{})
        .batch({.size = 8 / topology.world_size()})
        .epochs({.count = 2})
        .resources({.threads = threads});
  }

 private:
  void add(const std::string& set, int shard, int samples) {
    TarBuilder tar;
    for (int i = 0; i < samples; ++i)
      tar.file(set + std::to_string(shard) + "-" + std::to_string(i) + ".cls", "1");
    testing::write_file(folder_ / (set + "-" + std::to_string(shard) + ".tar"), tar.end().bytes());
  }

  TempDir folder_;
};

using Slots = std::map<std::pair<std::uint32_t, std::int64_t>, std::string>;

void collect(Pipeline& pipeline, Slots& slots) {
  while (!pipeline.finished()) {
    for (Batch batch; pipeline.next(batch);)
      for (std::int64_t i = 0; i < batch.size; ++i)
        if (batch.valid[static_cast<std::size_t>(i)])
          slots[{batch.epoch, batch.slots.first + i * batch.slots.stride}] =
              batch.keys[static_cast<std::size_t>(i)];
  }
}

Slots slots_of(const Sets& sets, int processes, int devices, int threads) {
  Slots slots;
  for (int process = 0; process < processes; ++process) {
    Pipeline pipeline =
        sets.mixed({.process = process, .processes = processes, .devices = devices}, threads)
            .build();
    collect(pipeline, slots);
  }
  return slots;
}

struct Passed {
  std::vector<std::vector<std::string>> batches;  ///< their keys
  std::vector<std::string> positions;             ///< behind each, as JSON
};

Passed passed(Pipeline pipeline) {
  Passed all;
  while (!pipeline.finished()) {
    for (Batch batch; pipeline.next(batch);) {
      all.batches.push_back(batch.keys);
      all.positions.push_back(batch.position->to_json());
    }
  }
  return all;
}

/// `resumed` goes on behind the batch `at` of `whole`.
void expect_rest(Pipeline resumed, const Passed& whole, std::size_t at) {
  std::size_t next = at + 1;
  while (!resumed.finished()) {
    for (Batch batch; resumed.next(batch); ++next)
      ASSERT_EQ(batch.keys, whole.batches.at(next)) << at;
  }
  EXPECT_EQ(next, whole.batches.size()) << at;
}

std::string message_of_mix(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

TEST(PipelineMix, IsTheSameAtEveryNumberOfThreadsProcessesAndDevices) {
  const Sets sets;
  const Slots one = slots_of(sets, 1, 1, 1);
  EXPECT_GT(one.size(), 2U * 230) << "60 samples of b are a quarter of 240";
  int of_a = 0;
  for (const auto& [slot, key] : one) of_a += key[0] == 'a' ? 1 : 0;
  EXPECT_NEAR(of_a, 0.75 * static_cast<double>(one.size()), 6);
  EXPECT_EQ(slots_of(sets, 1, 1, 8), one);
  EXPECT_EQ(slots_of(sets, 1, 4, 2), one);
  EXPECT_EQ(slots_of(sets, 2, 2, 2), one);
  EXPECT_EQ(slots_of(sets, 4, 1, 2), one);
}

TEST(PipelineMix, ContinuesAfterEveryBatchWithoutReadingMoreThanItsBuffers) {
  const Sets sets;
  const Passed whole = passed(sets.mixed().build());
  for (std::size_t at = 0; at < whole.positions.size(); at += 3) {
    const Position saved = Position::from_json(whole.positions[at]);
    for (const Position::Stream& stream : saved.streams) EXPECT_EQ(stream.skip, 0U);
    expect_rest(sets.mixed().resume(saved).build(), whole, at);
  }
}

/// Of each set its samples with even numbers, in a permutation of its own.
Pipeline::Builder filtered_mix(const Sets& sets, Topology topology = {}, int threads = 2) {
  return sets.mixed(topology, threads)
      .shuffle(
          {.seed = 5, .order = wds::Order::kPermutation, .where = "not key matches '*[13579]'"});
}

TEST(PipelineMix, AFilterLeavesTheSharesOnEveryLayout) {
  const Sets sets;
  const auto slots_on = [&](int processes, int devices, int threads) {
    Slots slots;
    for (int process = 0; process < processes; ++process) {
      Pipeline pipeline =
          filtered_mix(sets, {.process = process, .processes = processes, .devices = devices},
                       threads)
              .build();
      collect(pipeline, slots);
    }
    return slots;
  };
  const Slots one = slots_on(1, 1, 1);
  std::map<std::string, int> times;
  int of_a = 0;
  for (const auto& [slot, key] : one) {
    EXPECT_EQ((key.back() - '0') % 2, 0) << key;
    of_a += key[0] == 'a' ? 1 : 0;
    ++times[key];
  }
  EXPECT_NEAR(static_cast<double>(one.size()), 2 * 120, 2 * 8)
      << "30 of b are a quarter of 120; the epoch ends with the first of four streams of them";
  EXPECT_NEAR(of_a, 0.75 * static_cast<double>(one.size()), 6);
  for (const auto& [key, count] : times) EXPECT_LE(count, 2) << key << " in two epochs";
  EXPECT_EQ(slots_on(1, 1, 8), one);
  EXPECT_EQ(slots_on(1, 4, 2), one);
  EXPECT_EQ(slots_on(2, 2, 2), one);
  EXPECT_EQ(slots_on(4, 1, 2), one);
}

TEST(PipelineMix, WhatAFilterLeavesOutIsCountedOnce) {
  const Sets sets;
  std::uint64_t emitted = 0;
  std::uint64_t filtered = 0;
  for (int process = 0; process < 2; ++process) {
    Pipeline pipeline = filtered_mix(sets, {.process = process, .processes = 2})
                            .mix(wds::MixEnd::kDrop)
                            .epochs({.count = 1})
                            .build();
    EXPECT_EQ(global_samples_per_epoch(pipeline.options()), 130);
    for (Batch batch; pipeline.next(batch);) continue;
    emitted += pipeline.ledger()->emitted();
    filtered += pipeline.ledger()->filtered();
  }
  EXPECT_EQ(emitted, 130U);
  EXPECT_EQ(filtered, 130U);
}

TEST(PipelineMix, AFilteredMixContinuesAfterEveryBatch) {
  const Sets sets;
  for (const auto end : {wds::MixEnd::kStop, wds::MixEnd::kRepeat}) {
    const auto mixed = [&] { return filtered_mix(sets).mix(end); };
    const Passed whole = passed(mixed().build());
    for (std::size_t at = 0; at < whole.positions.size(); at += 5)
      expect_rest(mixed().resume(Position::from_json(whole.positions[at])).build(), whole, at);
  }
}

TEST(PipelineMix, EndsAsItSays) {
  const Sets sets;
  const auto samples = [&](wds::MixEnd end, std::int64_t most) {
    Pipeline pipeline = sets.mixed().mix(end).epochs({.samples = most}).build();
    std::int64_t count = 0;
    for (Batch batch; pipeline.next(batch);) count += batch.num_valid;
    EXPECT_EQ(global_samples_per_epoch(pipeline.options()), count);
    return count;
  };
  EXPECT_EQ(samples(wds::MixEnd::kDrop, 0), 260);
  EXPECT_NEAR(static_cast<double>(samples(wds::MixEnd::kStop, 0)), 240, 4);
  EXPECT_NEAR(static_cast<double>(samples(wds::MixEnd::kRepeat, 0)), 267, 4);
  EXPECT_EQ(samples(wds::MixEnd::kRepeat, 1000), 1000);
  EXPECT_EQ(samples(wds::MixEnd::kDrop, 1000), 260);
  EXPECT_EQ(samples(wds::MixEnd::kStop, 100), 100);
}

std::int64_t count_samples(Pipeline::Builder builder) {
  Pipeline pipeline = builder.build();
  std::int64_t count = 0;
  for (Batch batch; pipeline.next(batch);) count += batch.num_valid;
  return count;
}

TEST(PipelineMix, PassesAndSamplesEndItAtWhicheverComesFirst) {
  const Sets sets;
  const auto samples = [&](wds::MixEnd end, EpochOptions epochs) {
    const auto builder = [&] { return sets.mixed().mix(end).epochs(epochs); };
    const std::int64_t count = count_samples(builder());
    EXPECT_EQ(global_samples_per_epoch(builder().build().options()), count);
    return count;
  };
  EXPECT_EQ(samples(wds::MixEnd::kDrop, {.passes = 3}), 780);
  EXPECT_NEAR(static_cast<double>(samples(wds::MixEnd::kStop, {.passes = 3})), 720, 4);
  EXPECT_NEAR(static_cast<double>(samples(wds::MixEnd::kRepeat, {.passes = 3})), 800, 4);
  EXPECT_EQ(samples(wds::MixEnd::kRepeat, {.samples = 500, .passes = 3}), 500);
  EXPECT_NEAR(static_cast<double>(samples(wds::MixEnd::kRepeat, {.samples = 1000, .passes = 1})),
              267, 4);
  EXPECT_EQ(samples(wds::MixEnd::kDrop, {.samples = 500, .passes = 3}), 500);
}

TEST(PipelineMix, ResampledSetsHaveTheEpochThatIsAskedFor) {
  const Sets sets;
  const auto resampled = [&] { return sets.mixed().scan(false); };
  EXPECT_EQ(count_samples(resampled().epochs({.samples = 1001, .resampled = true})), 1001);
  EXPECT_EQ(count_samples(resampled().epochs({.batches = 90, .resampled = true})), 720);
  EXPECT_THAT(message_of_mix([&] { resampled().epochs({.resampled = true}).build(); }),
              HasSubstr("set the samples or batches of an epoch"));
  EXPECT_THAT(
      message_of_mix([&] {
        resampled().mix(wds::MixEnd::kDrop).epochs({.samples = 10, .resampled = true}).build();
      }),
      HasSubstr("are resampled have no end"));
}

TEST(PipelineMix, APositionOfOtherPassesIsRefused) {
  const Sets sets;
  Pipeline pipeline = sets.mixed().epochs({.passes = 3}).build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(message_of_mix([&] { sets.mixed().resume(*batch.position).build(); }),
              HasSubstr("passes: 3 saved, none given"));
}

TEST(PipelineMix, APositionOfAnotherMixIsRefused) {
  const Sets sets;
  Pipeline pipeline = sets.mixed().build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  const auto other = [&](double weight) {
    return Pipeline::Builder()
        .mix(weight, sets.spec("a"))
        .mix(0.25, sets.spec("b"))
        .split({.streams = 4})
        .shuffle({.shards = true, .buffer_samples = 16, .seed = 5})
        .field(LabelField{})
        .batch({.size = 8})
        .epochs({.count = 2});
  };
  EXPECT_EQ(message_of_mix([&] { other(0.75).resume(*batch.position).build(); }), "nothing thrown");
  EXPECT_THAT(message_of_mix([&] { other(0.5).resume(*batch.position).build(); }),
              HasSubstr("does not fit this pipeline: mix: 3 of 5 shards, 1 of 2 shards, stop "
                        "saved, 2 of 5 shards, 1 of 2 shards, stop given"));
  const auto differences =
      option_differences(identify(pipeline.options()), identify(other(0.5).build().options()));
  EXPECT_THAT(differences,
              ::testing::ElementsAre("mix: 3 of 5 shards, 1 of 2 shards, stop saved, 2 of 5 "
                                     "shards, 1 of 2 shards, stop given"));
}

TEST(PipelineMix, RefusesWhatContradictsIt) {
  const Sets sets;
  const auto message = [&](const std::function<void(Pipeline::Builder&)>& change) {
    return message_of_mix([&] {
      Pipeline::Builder builder = sets.mixed();
      change(builder);
      builder.build();
    });
  };
  EXPECT_THAT(message([](auto& builder) { builder.shuffle({.order = wds::Order::kWebDataset}); }),
              HasSubstr("millrace's own order or permutations"));
  const auto chosen = [&](wds::ShuffleOptions shuffle) {
    shuffle.order = wds::Order::kPermutation;
    return message([&](auto& builder) { builder.shuffle(shuffle); });
  };
  EXPECT_THAT(chosen({.where = "key matches 'a*'"}),
              HasSubstr("keeps no sample of a set of the mix"));
  EXPECT_THAT(message([](auto& builder) { builder.scan(false); }),
              HasSubstr("needs the number of samples in each shard"));
  EXPECT_THAT(message([&](auto& builder) { builder.shards(sets.spec("a")); }),
              HasSubstr("shards or a mix, not both"));
  EXPECT_THAT(message([&](auto& builder) { builder.mix(-1, sets.spec("a")); }),
              HasSubstr("above 0"));
}

}  // namespace
}  // namespace millrace::pipeline
