// The tuner by itself, on meters of simulated pipelines; then pipelines that tune themselves.
#include "pipeline/detail/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/base/rng.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr TuneSettings kFirst{.readers = 4, .decode_threads = 2, .read_ahead = 2};
constexpr TuneSettings kMost{.readers = 16, .decode_threads = 8, .read_ahead = 50};

/// What a pipeline does in a second, as a function of its settings.
using Model = std::function<TuneMeters(const TuneSettings&)>;

/// Shows `windows` seconds of a model to a tuner; returns how often its settings changed.
int run(Tuner& tuner, const Model& model, int windows) {
  int changes = 0;
  for (int i = 0; i < windows; ++i) changes += tuner.observe(model(tuner.settings())) ? 1 : 0;
  return changes;
}

TuneMeters idle_consumer(double rate) {
  return {.seconds = 1, .samples = rate, .wait_seconds = 0.9};
}

/// Every reader gives 100 samples a second, and is always busy with one of 16 streams.
TuneMeters slow_reader(const TuneSettings& settings) {
  TuneMeters meters = idle_consumer(100.0 * settings.readers);
  meters.read_seconds = 0.99 * settings.readers;
  meters.queue_seconds = 16.0 - settings.readers;
  meters.decode_seconds = meters.processor_seconds = 0.1;
  return meters;
}

/// Every thread decodes 100 samples a second; `computing` of its time on the processor.
Model slow_decode(double computing, double threads_that_help = 1e9) {
  return [=](const TuneSettings& settings) {
    TuneMeters meters =
        idle_consumer(100.0 * std::min(threads_that_help, 1.0 * settings.decode_threads));
    meters.read_seconds = 0.1;
    meters.decode_seconds = 0.98 * settings.decode_threads;
    meters.processor_seconds = computing * meters.decode_seconds;
    return meters;
  };
}

/// The rate grows with the blocks read ahead up to `enough`, where the consumer no longer waits.
Model stalls(int enough) {
  return [=](const TuneSettings& settings) {
    TuneMeters meters = idle_consumer(10.0 * std::min(enough, settings.read_ahead));
    if (settings.read_ahead >= enough) meters.wait_seconds = 0;
    meters.read_seconds = 0.5 * settings.readers;
    meters.decode_seconds = meters.processor_seconds = 0.2;
    return meters;
  };
}

TEST(Tuner, LeavesAPipelineAloneThatKeepsUp) {
  Tuner tuner(kFirst, kMost);
  TuneMeters meters = slow_reader(kFirst);
  meters.wait_seconds = 0.04;
  EXPECT_EQ(run(
                tuner, [&](const auto&) { return meters; }, 100),
            0);
  EXPECT_EQ(tuner.settings(), kFirst);
  EXPECT_THAT(tuner.text(), HasSubstr("hardly waits"));
}

TEST(Tuner, GivesMoreReadersToASlowSource) {
  Tuner tuner(kFirst, kMost);
  EXPECT_EQ(run(tuner, slow_reader, 100), 2);
  EXPECT_EQ(tuner.settings(), (TuneSettings{.readers = 16, .decode_threads = 2, .read_ahead = 2}));
  EXPECT_EQ(tuner.text(),
            "2 blocks read ahead of each stream, 16 readers (4 at first), 2 decoding threads: all "
            "readers are busy, as many as there may be: the source limits");
}

TEST(Tuner, GivesMoreThreadsToDecodingThatWaits) {
  Tuner tuner(kFirst, kMost);
  EXPECT_EQ(run(tuner, slow_decode(0.1), 100), 2);
  EXPECT_EQ(tuner.settings(), (TuneSettings{.readers = 4, .decode_threads = 8, .read_ahead = 2}));
}

TEST(Tuner, KnowsThatMoreThreadsDoNotHelpWhereTheProcessorLimits) {
  Tuner tuner(kFirst, kMost);
  EXPECT_EQ(run(tuner, slow_decode(0.97), 100), 0);
  EXPECT_THAT(tuner.text(), HasSubstr("the processor limits"));
  const Model computing = [](const TuneSettings& settings) {
    TuneMeters meters = stalls(30)(settings);
    meters.program_seconds = 0.95;
    return meters;
  };
  EXPECT_EQ(run(tuner, computing, 100), 0);
  EXPECT_THAT(tuner.text(), HasSubstr("the processor limits"));
}

TEST(Tuner, ReadsFurtherAheadWhereReadersStall) {
  Tuner tuner(kFirst, kMost);
  EXPECT_EQ(run(tuner, stalls(30), 100), 2);
  EXPECT_EQ(tuner.settings().read_ahead, 50);
  EXPECT_EQ(tuner.settings().readers, 4);
  EXPECT_THAT(tuner.text(), HasSubstr("50 blocks read ahead of each stream (2 at first)"));
}

TEST(Tuner, UndoesWhatDoesNotHelpAndTriesItEverMoreRarely) {
  Tuner tuner(kFirst, kMost);
  const Model model = slow_decode(0.1, 2);
  const int first = run(tuner, model, 200);
  EXPECT_GE(first, 4) << "each try is a change, and another one back";
  EXPECT_LE(first, 10);
  EXPECT_LE(run(tuner, model, 10'000), 16);
  while (tuner.is_trying()) run(tuner, model, 1);
  EXPECT_EQ(tuner.settings(), kFirst);
}

TEST(Tuner, SeesAStallThatIsRarerThanAWindow) {
  Tuner tuner(kFirst, kMost);
  int second = 0;
  run(
      tuner,
      [&](const TuneSettings& settings) {
        TuneMeters meters = stalls(30)(settings);
        if (++second % 7 != 0) meters.samples = 300;  // only each seventh shows what it brings
        return meters;
      },
      500);
  EXPECT_EQ(tuner.settings().read_ahead, 50);
}

TEST(Tuner, TakesUpAChangedLoad) {
  Tuner tuner(kFirst, kMost);
  run(tuner, slow_decode(0.97), 100);
  run(tuner, slow_reader, 100);
  run(tuner, stalls(30), 100);
  EXPECT_EQ(tuner.settings(), (TuneSettings{.readers = 16, .decode_threads = 2, .read_ahead = 50}));
}

TEST(Tuner, StaysWithinItsLimitsAndRestsWhateverItSees) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    KeyedRng rng({.seed = seed});
    const auto any = [&](double most) {
      return most * 1e-6 * static_cast<double>(rng.below(1000001));
    };
    Tuner tuner(kFirst, kMost);
    int changes = 0;
    for (int i = 0; i < 1000; ++i) {
      const TuneSettings now = tuner.settings();
      const double decoding = any(now.decode_threads);
      changes += tuner.observe({.seconds = 1,
                                .samples = any(1000),
                                .wait_seconds = any(1),
                                .read_seconds = any(now.readers),
                                .queue_seconds = any(4),
                                .decode_seconds = decoding,
                                .processor_seconds = any(decoding)})
                     ? 1
                     : 0;
      ASSERT_TRUE(now.readers >= 4 && now.readers <= 16);
      ASSERT_TRUE(now.decode_threads >= 2 && now.decode_threads <= 8);
      ASSERT_TRUE(now.read_ahead >= 2 && now.read_ahead <= 50);
    }
    EXPECT_LT(changes, 100) << seed;
  }
}

TEST(Tuner, LeavesPinnedSettingsAlone) {
  Tuner tuner(kFirst, {.readers = 4, .decode_threads = 2, .read_ahead = 50});
  EXPECT_EQ(run(tuner, slow_reader, 50) + run(tuner, slow_decode(0.1), 50), 0);
  EXPECT_THAT(tuner.text(), HasSubstr("something other than the processor"));
}

FieldSpec waiting_field(std::chrono::microseconds time) {
  return FunctionField{
      .name = "waits",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [time](const wds::Sample&, const decode::SampleId&, std::span<std::byte> slot) {
        slot[0] = std::byte{0};
        std::this_thread::sleep_for(time);
      }};
}

/// Two epochs of a pipeline that looks at what limits every 20 ms.
Statistics run_tuned(PipelineOptions options, const testing::FakeStreams& streams) {
  options.resources.autotune.interval = 20ms;
  options.epochs.count = 2;
  Pipeline pipeline = testing::fake_pipeline(std::move(options), streams);
  while (!pipeline.finished())
    for (Batch batch; pipeline.next(batch);) continue;
  return pipeline.statistics();
}

/// Epochs of such a pipeline until `is_tuned`, which a busy machine delays, or 100.
Statistics run_until(PipelineOptions options, const testing::FakeStreams& streams,
                     const std::function<bool(const Tuning&)>& is_tuned) {
  options.resources.autotune.interval = 20ms;
  options.epochs.count = 100;
  Pipeline pipeline = testing::fake_pipeline(std::move(options), streams);
  while (!pipeline.finished())
    for (Batch batch; pipeline.next(batch);)
      if (is_tuned(pipeline.statistics().tuning)) return pipeline.statistics();
  return pipeline.statistics();
}

TEST(Autotune, RaisesWhatASlowPipelineLacks) {
  PipelineOptions decoding = testing::fake_options(2, 8);
  decoding.fields = {waiting_field(3ms)};  // much more than a sanitizer adds to a sample
  decoding.resources = {.threads = 1, .autotune = {.most_threads = 8}};
  decoding.epochs.samples = 300;
  const Statistics decoded =
      run_until(decoding, {}, [](const Tuning& tuning) { return tuning.decode_threads > 1; });
  EXPECT_GT(decoded.tuning.decode_threads, 1) << decoded.to_text();
  EXPECT_EQ(decoded.tuning.readers, 2);
  EXPECT_EQ(decoded.stage("decode").threads, decoded.tuning.decode_threads);

  PipelineOptions reading = testing::fake_options(12, 8);
  reading.resources = {.threads = 1, .io_threads = 2, .autotune = {.most_io_threads = 64}};
  reading.epochs.samples = 2000;
  const Statistics read = run_until(reading, {.delay_per_block = 2ms},
                                    [](const Tuning& tuning) { return tuning.readers > 2; });
  EXPECT_GT(read.tuning.readers, 2) << read.to_text();
  EXPECT_LE(read.tuning.readers, 12) << "one for each stream";
  EXPECT_EQ(read.tuning.decode_threads, 1);
}

TEST(Autotune, IsNotDoneWhereItIsSwitchedOff) {
  PipelineOptions options = testing::fake_options(4, 8);
  options.resources = {.threads = 1, .autotune = {.on = false}};
  const Statistics statistics = run_tuned(options, {.delay_per_block = 2ms});
  EXPECT_FALSE(statistics.tuning.on);
  EXPECT_EQ(statistics.tuning.read_ahead, 2);
  EXPECT_EQ(statistics.to_text().find("autotune"), std::string::npos);
}

/// What a stream may have in memory.
constexpr std::size_t kBlock = wds::SampleBlock::kMaxBytes;

TEST(Autotune, ReadsAheadWithinTheBudget) {
  PipelineOptions options = testing::fake_options(4, 8);
  options.resources.autotune.interval = 0ms;
  const std::size_t open = testing::fake_pipeline(options).memory_bound_bytes();
  options.resources.autotune.on = false;
  const std::size_t fixed = testing::fake_pipeline(options).memory_bound_bytes();
  EXPECT_EQ(open, fixed + 128 * kBlock);
  options.resources.autotune.on = true;
  options.resources.memory_budget_bytes = fixed + 9 * kBlock;
  EXPECT_EQ(testing::fake_pipeline(options).memory_bound_bytes(), fixed + 8 * kBlock)
      << "two blocks more for each of four streams";

  // Blocks of 1 MiB from streams that stall in turn, so that it reads as far ahead as it may.
  testing::FakeStreams streams{.block_samples = 4, .payload_bytes = kBlock / 4};
  streams.before_block = [](int stream, std::uint32_t, std::uint64_t index) {
    if (index % 40 == 10 * static_cast<std::uint64_t>(stream)) std::this_thread::sleep_for(10ms);
  };
  options.epochs.samples = 1000;
  const Statistics statistics = run_tuned(options, streams);
  EXPECT_LE(statistics.tuning.read_ahead, 4);
  EXPECT_LE(statistics.peak_held_bytes, options.resources.memory_budget_bytes);
}

TEST(Autotune, RefusesLimitsBelowWhatItStartsWith) {
  PipelineOptions options = testing::fake_options(2, 8);
  options.resources = {.threads = 4, .autotune = {.most_threads = 3}};
  EXPECT_THROW(testing::fake_pipeline(options), Error);
}

}  // namespace
}  // namespace millrace::pipeline::detail
