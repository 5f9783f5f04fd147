// A run of several processes and devices, stopped after a step and continued by others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/position.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/pipeline/layout_runs.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using testing::fake_options;
using testing::fake_source;
using testing::FakeStreams;
using ::testing::HasSubstr;
using testing::History;
using testing::Layout;
using testing::run;

constexpr int kStreams = 8;
constexpr std::int64_t kElasticBatch = 24;
constexpr std::uint32_t kEpochs = 2;

/// So many samples per epoch, in equal shares.
FakeStreams balanced(std::int64_t samples) {
  return {.length = [samples](int stream, std::uint32_t epoch) {
    return static_cast<std::int64_t>(stream_share(samples + 17 * epoch, kStreams, stream));
  }};
}

PipelineOptions options_for(const FakeStreams& streams) {
  PipelineOptions options = fake_options(kStreams, kElasticBatch);
  options.split.streams = kStreams;
  options.source = fake_source(streams);
  options.resources.threads = 1;
  options.epochs.count = kEpochs;
  return options;
}

History run_streams(const FakeStreams& streams, const Layout& layout,
                    const std::string& from = {}) {
  return run(options_for(streams), layout, from);
}

TEST(Elastic, GlobalBatchesAreTheSameForEveryLayout) {
  for (const std::int64_t samples : {103, 96, 100, 5}) {
    const auto whole = run_streams(balanced(samples), {}).steps;
    std::size_t count = 0;
    for (const auto& step : whole) count += step.size();
    EXPECT_EQ(2 * static_cast<std::size_t>(samples) + 17, count);
    for (const Layout layout :
         {Layout{2}, Layout{4}, Layout{8}, Layout{1, 2}, Layout{1, 3}, Layout{2, 4}, Layout{4, 3}})
      EXPECT_EQ(whole, run_streams(balanced(samples), layout).steps)
          << samples << " " << name_of(layout);
  }
}

TEST(Elastic, AReplicaHasTheSameSlotsHoweverTheReplicasAreSpread) {
  for (const std::int64_t samples : {103, 100, 5, 2}) {
    for (const int world : {4, 8}) {
      PipelineOptions options = options_for(balanced(samples));
      options.epochs.samples = samples;  // so that each replica has each step
      const auto processes = run(options, {world}).replicas;
      EXPECT_EQ(processes.front().size(), static_cast<std::size_t>(world));
      for (int devices = 2; devices <= world; devices *= 2) {
        const Layout layout{world / devices, devices};
        EXPECT_EQ(processes, run(options, layout).replicas) << samples << " " << name_of(layout);
      }
    }
  }
}

TEST(Elastic, AnyStepIsContinuedByAnyLayout) {
  const FakeStreams streams = balanced(103);
  const History whole = run_streams(streams, {4});
  for (const Layout saved : {Layout{1}, Layout{2, 2}, Layout{1, 4}, Layout{8}, Layout{2, 3}}) {
    const History before = run_streams(streams, saved);
    for (const Layout layout : {Layout{1}, Layout{4}, Layout{2, 2}, Layout{1, 4}}) {
      for (std::size_t step = 0; step + 1 < before.steps.size(); step += 2) {
        const History after = run_streams(streams, layout, before.positions[step]);
        const auto next = static_cast<std::ptrdiff_t>(step) + 1;
        EXPECT_EQ(after.steps, std::vector(whole.steps.begin() + next, whole.steps.end()))
            << name_of(saved) << " to " << name_of(layout) << " after step " << step;
        if (layout.world() != 4) continue;
        EXPECT_EQ(after.replicas, std::vector(whole.replicas.begin() + next, whole.replicas.end()))
            << name_of(saved) << " to " << name_of(layout) << " after step " << step;
      }
    }
  }
}

// The position of each batch in the middle of a round, too.
TEST(Elastic, AnyBatchOfARoundIsContinued) {
  PipelineOptions options = fake_options(kStreams, 4);
  options.source = fake_source(balanced(53));
  options.split.topology.devices = 3;
  options.epochs.count = 2;
  const auto positions = testing::expect_same_after_any_resume(options);
  const Position within = Position::from_json(positions.at(1));
  EXPECT_EQ(within.round.taken, 2);
  EXPECT_EQ(within.slots, 0);
  options.resume = std::make_shared<const Position>(within);
  options.split.topology.devices = 2;
  const auto refused = [&] {
    try {
      const Pipeline pipeline(options);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused(), HasSubstr("after batch 2 of a round of 3 of size 4; 2 of size 4 given"));
  options.resume = std::make_shared<const Position>(Position::from_json(positions.at(2)));
  EXPECT_THAT(refused(), HasSubstr("12 slots used do not divide into rounds of 2 batches of 4"));
}

std::string refusal_of(const FakeStreams& streams, const Layout& layout, const Position& from) {
  try {
    run_streams(streams, layout, from.to_json());
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    return error.message();
  }
  return "accepted";
}

TEST(Elastic, WhatAnotherNumberCannotContinueIsRefusedWithTheNumbers) {
  const FakeStreams streams = balanced(103);
  const Position whole = Position::from_json(run_streams(streams, {2}).positions[1]);
  EXPECT_EQ("accepted", refusal_of(streams, {4}, whole));
  Position odd = whole;
  odd.slots = 47;
  EXPECT_THAT(refusal_of(streams, {2}, odd),
              HasSubstr("47 slots used do not divide among 2 processes"));
  odd.slots = 16;
  EXPECT_THAT(refusal_of(streams, {1}, odd),
              HasSubstr("16 slots used do not divide into batches of 24"));
  try {
    static_cast<void>(whole.share({.processes = 3}, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ("its 8 streams do not divide among 3 processes: 1, 2, 4, 8 do", error.message());
  }
  const Position alone = whole.share({.process = 1, .processes = 2}, 1);
  EXPECT_THAT(refusal_of(streams, {4}, alone), HasSubstr("that of process 1 of 2 alone"));
  EXPECT_THAT(refusal_of(streams, {1, 4}, odd),
              HasSubstr("16 slots used do not divide into batches of 6"));
  odd.slots = 12;
  odd.turns = {4};
  EXPECT_THAT(refusal_of(streams, {1, 4}, odd),
              HasSubstr("12 slots used do not divide into rounds of 4 batches of 6"));
  odd = whole;
  odd.streams.resize(6);
  EXPECT_THAT(refusal_of(streams, {2}, odd), HasSubstr("6 streams saved, 8 given"));
}

// Nobody can say what its order would have been with other processes.
TEST(Elastic, AStreamThatEndedEarlyKeepsItsProcesses) {
  const FakeStreams uneven{
      .length = [](int stream, std::uint32_t) { return stream == 3 ? 4 : 30; }};
  const History before = run_streams(uneven, {2});
  const Position early = Position::from_json(before.positions.front());
  EXPECT_EQ("accepted", refusal_of(uneven, {4}, early)) << "none has ended yet";
  const Position late = Position::from_json(before.positions[4]);
  const History after = run_streams(uneven, {2}, late.to_json());
  EXPECT_EQ(after.steps, std::vector(before.steps.begin() + 5, before.steps.end()));
  EXPECT_THAT(refusal_of(uneven, {4}, late), HasSubstr("only the 2 processes"));
  EXPECT_THAT(refusal_of(uneven, {1}, late), HasSubstr("1 given"));
  EXPECT_THAT(refusal_of(uneven, {2, 2}, late), HasSubstr("only the 2 processes"));

  const History of_two = run_streams(uneven, {2, 2});
  const Position stopped = Position::from_json(of_two.positions[4]);
  EXPECT_EQ(run_streams(uneven, {2, 2}, stopped.to_json()).replicas,
            std::vector(of_two.replicas.begin() + 5, of_two.replicas.end()));
  EXPECT_THAT(refusal_of(uneven, {2}, stopped),
              HasSubstr("only the 2 processes that read them continue this epoch, with 2 devices "
                        "each; 2 given"));
}

TEST(Elastic, PositionsThatDoNotBelongTogetherAreRefused) {
  constexpr Topology kFirst{.process = 0, .processes = 2};
  constexpr Topology kSecond{.process = 1, .processes = 2};
  const FakeStreams streams = balanced(103);
  const Position first = Position::from_json(run_streams(streams, {2}).positions[0]);
  const Position second = Position::from_json(run_streams(streams, {2}).positions[1]);
  EXPECT_THROW(Position::joined({}), Error);
  const std::vector<Position> swapped{first.share(kSecond, 1), first.share(kFirst, 1)};
  EXPECT_THROW(Position::joined(swapped), Error);
  std::vector<Position> epochs{first.share(kFirst, 1), first.share(kSecond, 1)};
  EXPECT_EQ(first.to_json(), Position::joined(epochs).to_json());
  epochs[1].epoch = 1;
  EXPECT_THROW(Position::joined(epochs), Error);
}

// 36 samples in batches of 8 are 40 slots.
TEST(Elastic, AnEpochThatIsOverIsLeftByAnyLayout) {
  PipelineOptions options = options_for(balanced(36));
  options.epochs.samples = 36;
  options.epochs.count = 1;
  options.batch.size = 8;
  const std::string over = run(options, {}).positions.at(4);
  EXPECT_EQ(Position::from_json(over).slots, 40);
  for (const Layout layout : {Layout{1}, Layout{4}, Layout{8}, Layout{2, 2}, Layout{1, 3}})
    for (const int size : {16, 24, 32}) {
      options.batch.size = size;
      for (const auto& step : run(options, layout, over).steps)
        EXPECT_TRUE(step.empty()) << size << " on " << name_of(layout);
    }
}

/// Uneven shards with indexes.
class ElasticShards {
 public:
  ElasticShards() {
    for (const int count : {17, 5, 41, 1, 23, 9, 30, 14}) write(count);
  }
  const std::vector<std::string>& urls() const { return urls_; }

 private:
  void write(int count) {
    const std::string shard = std::to_string(urls_.size());
    testing::TarBuilder tar;
    for (int i = 0; i < count; ++i)
      tar.file(shard + "-" + std::to_string(i) + ".cls", std::to_string(i % 10));
    urls_.push_back(folder_ / ("x-" + shard + ".tar"));
    testing::write_file(urls_.back(), tar.end().bytes());
    wds::write_index(wds::build_index(io::UrlOpener(), urls_.back()), wds::index_url(urls_.back()));
  }

  testing::TempDir folder_;
  std::vector<std::string> urls_;
};

/// Options that fix an order, drawn by `rng`.
PipelineOptions any_elastic_order(const ElasticShards& shards, KeyedRng& rng) {
  PipelineOptions options;
  options.shards = shards.urls();
  options.indexed = rng.below(2) == 0;  // else the shards are scanned
  options.fields = {LabelField{.classes = 10}};
  options.split.streams = static_cast<int>(4 * (1 + rng.below(3)));
  options.shuffle = {.shards = rng.below(2) == 0,
                     .buffer_samples = static_cast<std::int64_t>(rng.below(3) * 15),
                     .seed = rng.below(100)};
  options.batch.size = static_cast<std::int64_t>(8 * (1 + rng.below(5)));
  options.epochs.count = 2;
  options.epochs.samples = static_cast<std::int64_t>(rng.below(3) == 0 ? 60 + rng.below(200) : 0);
  options.resources.threads = 1;
  return options;
}

// 100 places: in a shuffle buffer, at an epoch's end, behind its last sample.
TEST(Elastic, AHundredBreaksLeaveTheStreamOfSamplesAsItIs) {
  const ElasticShards shards;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    KeyedRng rng({.seed = seed});
    const PipelineOptions options = any_elastic_order(shards, rng);
    const Layout layouts[] = {{1, 1}, {2, 1}, {4, 1}, {1, 4}, {2, 2}, {4, 2}};
    const Layout before = layouts[rng.below(6)];
    const History whole = run(options, before);
    EXPECT_EQ(whole.steps, run(options, {}).steps) << seed;
    for (int i = 0; i < 4; ++i) {
      const auto step = rng.below(whole.steps.size() - 1);
      const Layout after = i % 2 == 0 ? before : layouts[rng.below(6)];
      const auto rest = whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1;
      EXPECT_EQ(run(options, after, whole.positions[step]).steps,
                std::vector(rest, whole.steps.end()))
          << "seed " << seed << ": " << name_of(before) << ", after step " << step << " "
          << name_of(after);
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
