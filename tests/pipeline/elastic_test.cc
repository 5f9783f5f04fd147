// A run of several processes, stopped after a step and continued by another number of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/position.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using testing::fake_options;
using testing::fake_source;
using testing::FakeStreams;
using ::testing::HasSubstr;

constexpr int kStreams = 8;
constexpr std::int64_t kGlobalBatch = 24;
constexpr std::uint32_t kEpochs = 2;

/// So many samples per epoch, in equal shares.
FakeStreams balanced(std::int64_t samples) {
  return {.length = [samples](int stream, std::uint32_t epoch) {
    return static_cast<std::int64_t>(stream_share(samples + 17 * epoch, kStreams, stream));
  }};
}

/// Each valid sample, with what its key drew.
void add_rows(const Batch& batch, std::vector<std::string>& rows) {
  const BatchField& field = batch.fields.front();
  const std::size_t bytes = field.data.size() / static_cast<std::size_t>(batch.size);
  for (std::size_t i = 0; i < batch.valid.size(); ++i) {
    if (batch.valid[i] == 0) continue;
    const auto row = field.data.subspan(i * bytes, bytes);
    rows.push_back(batch.keys[i] + " " +
                   std::string(reinterpret_cast<const char*>(row.data()), bytes));
  }
}

/// What a run of several processes gave, step by step; an epoch's end is a step of none.
struct History {
  std::vector<std::vector<std::string>> steps;
  std::vector<std::string> positions;  ///< after each step, joined
};

/// The pipelines of `processes` processes, which step together; `whole` is what one would be.
History run(const PipelineOptions& whole, int processes, const std::string& from = {}) {
  std::vector<Pipeline> pipelines;
  for (int process = 0; process < processes; ++process) {
    PipelineOptions options = whole;
    options.batch.size = whole.batch.size / processes;
    options.split.topology = {.process = process, .processes = processes};
    if (!from.empty()) options.resume = std::make_shared<const Position>(Position::from_json(from));
    pipelines.emplace_back(std::move(options));
  }
  History history;
  while (!pipelines.front().finished()) {
    std::vector<bool> has_ended(pipelines.size());
    for (bool more = true; more;) {
      std::vector<std::string> rows;
      std::vector<Position> positions;
      more = false;
      for (std::size_t i = 0; i < pipelines.size(); ++i) {
        Batch batch;
        has_ended[i] = has_ended[i] || !pipelines[i].next(batch);
        if (!has_ended[i]) add_rows(batch, rows);
        more = more || !has_ended[i];
        positions.push_back(pipelines[i].position());
      }
      // One that has ended before the others stands where its last batch was.
      for (Position& position : positions)
        if (more && position.epoch > positions.front().epoch)
          position = {.epoch = positions.front().epoch,
                      .process = position.process,
                      .processes = processes};
      std::ranges::sort(rows);
      history.steps.push_back(std::move(rows));
      history.positions.push_back(Position::joined(positions).to_json());
    }
  }
  return history;
}

History run(const FakeStreams& streams, int processes, const std::string& from = {}) {
  PipelineOptions options = fake_options(kStreams, kGlobalBatch);
  options.split.streams = kStreams;
  options.source = fake_source(streams);
  options.resources.threads = 1;
  options.epochs.count = kEpochs;
  return run(options, processes, from);
}

TEST(Elastic, GlobalBatchesAreTheSameForEveryNumberOfProcesses) {
  for (const std::int64_t samples : {103, 96, 100, 5}) {
    const auto whole = run(balanced(samples), 1).steps;
    std::size_t count = 0;
    for (const auto& step : whole) count += step.size();
    EXPECT_EQ(2 * static_cast<std::size_t>(samples) + 17, count);
    for (const int processes : {2, 4, 8})
      EXPECT_EQ(whole, run(balanced(samples), processes).steps) << samples << " " << processes;
  }
}

TEST(Elastic, AnyStepIsContinuedByAnyNumberOfProcesses) {
  const FakeStreams streams = balanced(103);
  const History whole = run(streams, 1);
  for (const int saved : {1, 2, 8}) {
    const History before = run(streams, saved);
    for (const int processes : {1, 4}) {
      for (std::size_t step = 0; step + 1 < before.steps.size(); ++step) {
        const History after = run(streams, processes, before.positions[step]);
        const auto rest = whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1;
        EXPECT_EQ(after.steps, std::vector(rest, whole.steps.end()))
            << saved << " to " << processes << " after step " << step;
      }
    }
  }
}

std::string refusal_of(const FakeStreams& streams, int processes, const Position& from) {
  try {
    run(streams, processes, from.to_json());
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    return error.message();
  }
  return "accepted";
}

TEST(Elastic, WhatAnotherNumberCannotContinueIsRefusedWithTheNumbers) {
  const FakeStreams streams = balanced(103);
  const Position whole = Position::from_json(run(streams, 2).positions[1]);
  EXPECT_EQ("accepted", refusal_of(streams, 4, whole));
  Position odd = whole;
  odd.slots = 47;
  EXPECT_THAT(refusal_of(streams, 2, odd),
              HasSubstr("47 slots used do not divide among 2 processes"));
  odd.slots = 16;
  EXPECT_THAT(refusal_of(streams, 1, odd),
              HasSubstr("16 slots used do not divide into batches of 24"));
  try {
    static_cast<void>(whole.share(0, 3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ("its 8 streams do not divide among 3 processes: 1, 2, 4, 8 do", error.message());
  }
  const Position alone = whole.share(1, 2);
  EXPECT_THAT(refusal_of(streams, 4, alone), HasSubstr("that of process 1 of 2 alone"));
  odd = whole;
  odd.streams.resize(6);
  EXPECT_THAT(refusal_of(streams, 2, odd), HasSubstr("6 streams saved, 8 given"));
}

// Nobody can say what its order would have been with other processes.
TEST(Elastic, AStreamThatEndedEarlyKeepsItsProcesses) {
  const FakeStreams uneven{
      .length = [](int stream, std::uint32_t) { return stream == 3 ? 4 : 30; }};
  const History before = run(uneven, 2);
  const Position early = Position::from_json(before.positions.front());
  EXPECT_EQ("accepted", refusal_of(uneven, 4, early)) << "none has ended yet";
  const Position late = Position::from_json(before.positions[4]);
  const History after = run(uneven, 2, late.to_json());
  EXPECT_EQ(after.steps, std::vector(before.steps.begin() + 5, before.steps.end()));
  EXPECT_THAT(refusal_of(uneven, 4, late), HasSubstr("only the 2 processes"));
  EXPECT_THAT(refusal_of(uneven, 1, late), HasSubstr("1 given"));
}

TEST(Elastic, PositionsThatDoNotBelongTogetherAreRefused) {
  const FakeStreams streams = balanced(103);
  const Position first = Position::from_json(run(streams, 2).positions[0]);
  const Position second = Position::from_json(run(streams, 2).positions[1]);
  EXPECT_THROW(Position::joined({}), Error);
  const std::vector<Position> swapped{first.share(1, 2), first.share(0, 2)};
  EXPECT_THROW(Position::joined(swapped), Error);
  std::vector<Position> epochs{first.share(0, 2), first.share(1, 2)};
  EXPECT_EQ(first.to_json(), Position::joined(epochs).to_json());
  epochs[1].epoch = 1;
  EXPECT_THROW(Position::joined(epochs), Error);
}

/// Uneven shards with indexes.
class Shards {
 public:
  Shards() {
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
PipelineOptions any_order(const Shards& shards, KeyedRng& rng) {
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
  const Shards shards;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    KeyedRng rng({.seed = seed});
    const PipelineOptions options = any_order(shards, rng);
    const int processes[] = {1, 2, 4};
    const int before = processes[rng.below(3)];
    const History whole = run(options, before);
    EXPECT_EQ(whole.steps, run(options, 1).steps) << seed;
    for (int i = 0; i < 4; ++i) {
      const auto step = rng.below(whole.steps.size() - 1);
      const int after = i % 2 == 0 ? before : processes[rng.below(3)];
      const auto rest = whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1;
      EXPECT_EQ(run(options, after, whole.positions[step]).steps,
                std::vector(rest, whole.steps.end()))
          << "seed " << seed << ": " << before << " processes, after step " << step << " " << after;
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
