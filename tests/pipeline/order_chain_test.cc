// What an epoch has is the same on every layout, and through every chain of breaks: random set-ups
// with passes, resampling, parts of sets, mixes, dropped ends, fewer samples than streams, unequal
// shards. In
// the ordinary suite a few of them, with MILLRACE_LONG set 500.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/epoch_length.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/pipeline/layout_runs.h"
#include "tests/support/effort.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::History;
using testing::Layout;
using testing::run;
using Counts = std::vector<int>;

/// Shards with and without indexes, made once for each list of counts.
class ShardSets {
 public:
  std::vector<std::string> urls(const Counts& counts, bool indexed) {
    auto& urls = made_[{counts, indexed}];
    if (!urls.empty()) return urls;
    const std::string name = std::to_string(made_.size());
    for (const int count : counts) {
      testing::TarBuilder tar;
      const std::string shard = name + "-" + std::to_string(urls.size());
      for (int i = 0; i < count; ++i)
        tar.file(shard + "-" + std::to_string(i) + ".cls", std::to_string(i % 10));
      urls.push_back(folder_ / (shard + ".tar"));
      testing::write_file(urls.back(), tar.end().bytes());
      if (indexed)
        wds::write_index(wds::build_index(io::UrlOpener(), urls.back()),
                         wds::index_url(urls.back()));
    }
    return urls;
  }

 private:
  testing::TempDir folder_;
  std::map<std::pair<Counts, bool>, std::vector<std::string>> made_;
};

constexpr std::int64_t kGlobalBatch = 24;
const std::vector<Layout> kLayouts = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {6, 1}, {12, 1}, {1, 2},
                                      {1, 3}, {1, 4}, {1, 8}, {2, 2}, {2, 3}, {2, 4},  {3, 1},
                                      {3, 2}, {4, 3}, {6, 2}, {3, 4}, {4, 2}};

Layout any_layout(KeyedRng& rng) { return kLayouts[rng.below(kLayouts.size())]; }

const std::vector<Counts> kSets = {{17, 5, 41, 1, 23, 9, 30, 14}, {3}, {1, 0, 2}, {200}, {64, 7}};

PipelineOptions options_of(std::vector<std::string> shards) {
  PipelineOptions options;
  options.shards = std::move(shards);
  options.fields = {LabelField{.classes = 10}};
  options.split.streams = 12;
  options.batch.size = kGlobalBatch;
  options.resources = {.threads = 1, .io_threads = 1, .prefetch = 1, .autotune = {.on = false}};
  return options;
}

void draw_mix(PipelineOptions& options, ShardSets& sets, KeyedRng& rng) {
  const std::array<wds::MixEnd, 3> ends = {wds::MixEnd::kStop, wds::MixEnd::kRepeat,
                                           wds::MixEnd::kDrop};
  options.mix.end = ends[rng.below(ends.size())];
  options.shards.clear();
  for (const double weight : {0.7, 0.3}) {
    const auto urls = sets.urls(kSets[rng.below(kSets.size())], rng.below(2) == 0);
    wds::SampleRange range;
    if (rng.below(3) == 0) range = {.skip = rng.below(2), .take = 1 + rng.below(40)};
    options.mix.parts.push_back({.weight = weight, .num_shards = urls.size(), .range = range});
    options.shards.insert(options.shards.end(), urls.begin(), urls.end());
  }
  options.epochs.passes = static_cast<std::uint32_t>(rng.below(5));
}

/// Shards drawn with replacement, of a mix each set's own.
void draw_resampling(PipelineOptions& options, KeyedRng& rng) {
  options.shuffle.order = wds::Order::kMillrace;
  options.range = {};
  for (MixOptions::Part& part : options.mix.parts) part.range = {};
  options.mix.end = wds::MixEnd::kStop;
  options.epochs = {.samples = static_cast<std::int64_t>(1 + rng.below(300)), .resampled = true};
}

void draw_epoch(PipelineOptions& options, KeyedRng& rng) {
  if (rng.below(2) == 0)
    options.range = {.skip = rng.below(2), .take = 1 + rng.below(rng.below(2) == 0 ? 9 : 190)};
  options.epochs.passes = static_cast<std::uint32_t>(rng.below(6));
  if (rng.below(3) != 0) return;
  options.shuffle.order = wds::Order::kPermutation;
  options.shuffle.open_shards = 1;
}

/// All that fixes an order, drawn by `rng`.
PipelineOptions any_order(ShardSets& sets, KeyedRng& rng) {
  PipelineOptions options = options_of(sets.urls(kSets[rng.below(kSets.size())], false));
  options.indexed = true;
  options.split.streams = static_cast<int>(12 * (1 + rng.below(2)));
  options.shuffle = {.shards = rng.below(2) == 0,
                     .buffer_samples = static_cast<std::int64_t>(rng.below(3) * 15),
                     .open_shards = static_cast<int>(1 + rng.below(3)),
                     .seed = rng.below(100)};
  if (rng.below(4) == 0)
    draw_mix(options, sets, rng);
  else
    draw_epoch(options, rng);
  if (rng.below(3) == 0) options.epochs.samples = static_cast<std::int64_t>(1 + rng.below(150));
  if (rng.below(5) == 0) draw_resampling(options, rng);
  options.batch.uneven = rng.below(3) == 0 ? Uneven::kDrop : Uneven::kPad;
  options.epochs.count = 2;
  return options;
}

/// Samples of one epoch as they were promised before it began.
std::int64_t promised(const PipelineOptions& options) {
  const auto known = with_counts(options);
  const std::int64_t samples = global_samples_per_epoch(known).value_or(-1);
  return options.batch.uneven == Uneven::kDrop ? samples / kGlobalBatch * kGlobalBatch : samples;
}

/// Empty options, and batches that nothing fills, are refused; nothing else may be.
bool is_refused(const PipelineOptions& options) {
  try {
    const Pipeline pipeline(options);
    return promised(options) == 0;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return true;
  }
}

std::size_t num_samples(const History& history) {
  return std::accumulate(history.steps.begin(), history.steps.end(), std::size_t{0},
                         [](std::size_t sum, const auto& step) { return sum + step.size(); });
}

/// The steps of a run that is broken off again and again, each time continued by another layout.
std::vector<std::vector<std::string>> chain(const PipelineOptions& options, std::size_t steps,
                                            KeyedRng& rng, std::string& text) {
  std::vector<std::vector<std::string>> all;
  std::string position;
  while (all.size() < steps) {
    const Layout layout = any_layout(rng);
    text += ", " + std::to_string(all.size()) + ": " + name_of(layout);
    const std::size_t left = steps - all.size();
    const History part =
        run(options, layout, position, 1 + rng.below(std::max<std::size_t>(1, left / 2 + 1)));
    all.insert(all.end(), part.steps.begin(), part.steps.end());
    if (part.steps.empty()) break;
    position = part.positions.back();
  }
  return all;
}

std::string text_of(const PipelineOptions& options) {
  std::string text = "passes " + std::to_string(options.epochs.passes) + ", epoch-samples " +
                     std::to_string(options.epochs.samples) + ", streams " +
                     std::to_string(options.split.streams) + ", take " +
                     std::to_string(options.range.take) + ", promised " +
                     std::to_string(promised(options));
  if (options.epochs.resampled) text += ", resampled";
  if (!options.mix.parts.empty())
    text += ", mix " + std::string(word_of(options.mix.end, wds::kMixEndWords));
  return text;
}

void expect_same_through_breaks(const PipelineOptions& options, KeyedRng& rng) {
  const History whole = run(options, {});
  EXPECT_EQ(num_samples(whole), options.epochs.count * promised(options));
  const Layout other = any_layout(rng);
  EXPECT_EQ(run(options, other).steps, whole.steps) << name_of(other);
  std::string text;
  const auto steps = chain(options, whole.steps.size(), rng, text);
  EXPECT_EQ(steps, whole.steps) << text;
}

std::uint64_t num_chains() { return testing::is_long() ? 500U : testing::thinned(30U); }

TEST(OrderChain, AnyOrderIsTheSameOnEveryLayoutAndThroughEveryChainOfBreaks) {
  ShardSets sets;
  std::uint64_t done = 0;
  for (std::uint64_t seed = 0; done < num_chains(); ++seed) {
    KeyedRng rng({.seed = seed});
    const PipelineOptions options = any_order(sets, rng);
    if (is_refused(options)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(options));
    expect_same_through_breaks(options, rng);
    ++done;
  }
}

/// How often each sample is in an epoch.
std::map<std::size_t, std::size_t> times(const History& history) {
  std::map<std::string, std::size_t> by_sample;
  for (const auto& step : history.steps)
    for (const std::string& sample : step) ++by_sample[sample];
  std::map<std::size_t, std::size_t> samples;
  for (const auto& [sample, count] : by_sample) ++samples[count];
  return samples;
}

TEST(OrderChain, EveryPassHasEverySampleOnceOnEveryLayout) {
  ShardSets sets;
  PipelineOptions options = options_of(sets.urls({200}, false));
  for (const std::uint64_t take : {3U, 5U, 170U}) {
    for (const wds::Order order : {wds::Order::kMillrace, wds::Order::kPermutation}) {
      options.range.take = take;
      options.epochs.passes = 7;
      options.shuffle = {.buffer_samples = 4, .order = order};
      const History whole = run(options, {});
      EXPECT_EQ(times(whole), (std::map<std::size_t, std::size_t>{{7, take}}));
      for (const Layout layout : {Layout{2}, Layout{4, 3}, Layout{3, 2}, Layout{1, 8}})
        EXPECT_EQ(run(options, layout).steps, whole.steps) << take << " " << name_of(layout);
    }
  }
}

/// Sets of 5 and of 71 samples.
PipelineOptions mixed(ShardSets& sets, wds::MixEnd end) {
  PipelineOptions options = options_of(sets.urls({5}, true));
  const auto large = sets.urls({64, 7}, true);
  options.shards.insert(options.shards.end(), large.begin(), large.end());
  options.indexed = true;
  options.mix = {.parts = {{.weight = 1, .num_shards = 1}, {.weight = 1, .num_shards = 2}},
                 .end = end};
  return options;
}

void expect_same_on_layouts(const PipelineOptions& options) {
  const History whole = run(options, {});
  EXPECT_EQ(num_samples(whole), promised(options));
  for (const Layout layout : {Layout{2}, Layout{4, 3}, Layout{3, 2}, Layout{1, 8}})
    EXPECT_EQ(run(options, layout).steps, whole.steps) << name_of(layout);
}

TEST(OrderChain, EachSetOfAMixHasItsPassesOnEveryLayout) {
  ShardSets sets;
  PipelineOptions options = mixed(sets, wds::MixEnd::kDrop);
  options.shuffle = {.buffer_samples = 4};
  options.epochs.passes = 7;
  EXPECT_EQ(times(run(options, {})), (std::map<std::size_t, std::size_t>{{7, 76}}));
  expect_same_on_layouts(options);
  options.mix.end = wds::MixEnd::kStop;
  EXPECT_EQ(promised(options), 2 * 7 * 5 + 1) << "the small set has no eighth pass";
  expect_same_on_layouts(options);
  options.mix.end = wds::MixEnd::kRepeat;
  EXPECT_NEAR(static_cast<double>(promised(options)), 2 * 7 * 71, 2 * 12)
      << "until the large set has its seventh in each stream";
  expect_same_on_layouts(options);
}

TEST(OrderChain, ResampledSetsOfAMixHaveTheirSharesOnEveryLayout) {
  ShardSets sets;
  PipelineOptions options = mixed(sets, wds::MixEnd::kStop);
  options.epochs = {.samples = 240, .resampled = true};
  expect_same_on_layouts(options);
  std::size_t small = 0;
  for (const auto& step : run(options, {}).steps)
    small += static_cast<std::size_t>(std::ranges::count_if(
        step, [](const auto& sample) { return sample.find("1-0-") != sample.npos; }));
  EXPECT_EQ(small, 120U);
}

// Most of what is drawn has nothing: that is no end.
TEST(OrderChain, ResampledShardsWithoutSamplesAreDrawnAnew) {
  ShardSets sets;
  Counts counts(20, 0);
  counts[13] = 3;
  PipelineOptions options = options_of(sets.urls(counts, false));
  options.epochs = {.count = 2, .samples = 100, .resampled = true};
  EXPECT_EQ(num_samples(run(options, {})), 200U);
}

TEST(OrderChain, TwoProcessesTakeTheStepsOfOneAndEitherContinuesTheOther) {
  ShardSets sets;
  PipelineOptions options = options_of(sets.urls({200}, false));
  options.range.take = 3;
  options.epochs.passes = 400;
  options.split.streams = 2;
  options.batch.size = 2;
  const History one = run(options, {});
  EXPECT_EQ(one.steps.size(), 600U + 1) << "and the epoch's end";
  const History broken = run(options, {2}, {}, 450);
  const History rest = run(options, {}, broken.positions.back());
  EXPECT_EQ(num_samples(broken) + num_samples(rest), 1200U);
  EXPECT_TRUE(rest.steps == std::vector(one.steps.begin() + 450, one.steps.end()));
}

// One sample of a set of three is in each hundred slots as often as in the others.
TEST(OrderChain, FewerSamplesThanStreamsMakeAnEpochOfAnyLength) {
  ShardSets sets;
  for (const int streams : {1, 3, 4, 12, 24, 96}) {
    PipelineOptions options = options_of(sets.urls({50, 50, 50, 50}, true));
    options.indexed = true;
    options.range.take = 3;
    options.split.streams = streams;
    options.epochs.samples = 100;
    const History whole = run(options, {});
    EXPECT_EQ(times(whole), (std::map<std::size_t, std::size_t>{{33, 2}, {34, 1}})) << streams;
    if (streams % 4 != 0) continue;
    EXPECT_EQ(run(options, {4, 2}).steps, whole.steps) << streams;
  }
}

TEST(OrderChain, AMixRepeatsASetOfFewerSamplesThanStreams) {
  ShardSets sets;
  PipelineOptions options = mixed(sets, wds::MixEnd::kRepeat);
  for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop}) {
    options.batch.uneven = uneven;
    const History whole = run(options, {});
    EXPECT_EQ(num_samples(whole), promised(options));
    EXPECT_EQ(run(options, {4, 1}).steps, whole.steps);
    EXPECT_EQ(run(options, {2, 3}).steps, whole.steps);
  }
}

// Whole shards are divided: streams differ in length, and nobody knows by how much. Still every
// pass has every sample once.
TEST(OrderChain, PassesOverWholeShardsLoseNothing) {
  ShardSets sets;
  PipelineOptions options = options_of(sets.urls({17, 5, 41, 1, 23, 9, 30, 14}, false));
  options.scan = false;
  options.split.streams = 4;
  options.epochs.passes = 3;
  for (const Layout layout : {Layout{1}, Layout{2}, Layout{4}, Layout{2, 2}})
    EXPECT_EQ(times(run(options, layout)), (std::map<std::size_t, std::size_t>{{3, 140}}))
        << name_of(layout);
}

// WebDataset seeds a stream's draws by its process and worker: those of the run's beginning.
TEST(OrderChain, ResampledShardsInWebDatasetsOrderAreContinuedByAnyNumberOfProcesses) {
  ShardSets sets;
  PipelineOptions options = options_of(sets.urls({17, 5, 41, 1, 23, 9, 30, 14}, false));
  options.shuffle = {.shards = true, .buffer_samples = 9, .order = wds::Order::kWebDataset};
  options.epochs = {.count = 3, .samples = 130, .resampled = true};
  const History of_two = run(options, {2});
  EXPECT_FALSE(of_two.steps == run(options, {}).steps) << "as WebDataset's are";
  History all;
  for (const Layout layout :
       {Layout{2}, Layout{1}, Layout{4, 2}, Layout{3}, Layout{1, 3}, Layout{6}}) {
    const std::string from = all.positions.empty() ? std::string() : all.positions.back();
    const History part = run(options, layout, from, 4);
    all.steps.insert(all.steps.end(), part.steps.begin(), part.steps.end());
    all.positions = part.positions;
  }
  EXPECT_TRUE(all.steps == of_two.steps);
  options.shuffle.seed_processes = 2;
  EXPECT_TRUE(run(options, {4}).steps == of_two.steps);
}

std::string message_of_chain(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

/// Ten samples in each of twelve streams, and another number promised.
class Liar final : public SampleSource {
 public:
  explicit Liar(std::int64_t more) : more_(more) {}
  std::string name() const override { return "a liar's"; }
  std::unique_ptr<Stream> open(const Request& request) const override {
    return streams_->open(request);
  }
  std::optional<std::int64_t> num_samples() const override { return 10 * 12 + more_; }

 private:
  std::int64_t more_;
  std::shared_ptr<const SampleSource> streams_ =
      testing::fake_source({.length = [](int, std::uint32_t) { return 10; }});
};

PipelineOptions options_of_liar(std::int64_t more) {
  PipelineOptions options = options_of({});
  options.source = std::make_shared<const Liar>(more);
  options.fields = {testing::number_field()};
  return options;
}

TEST(OrderChain, AnEpochWhoseSamplesAreNotThosePromisedIsAFault) {
  for (const std::int64_t more : {0, 3, -3}) {
    const PipelineOptions options = options_of_liar(more);
    const auto message = [&](const Layout& layout, const std::string& from = {}) {
      return message_of_chain([&] { run(options, layout, from); });
    };
    if (more == 0) {
      EXPECT_EQ(message({}), "nothing thrown");
      EXPECT_EQ(message({2, 2}), "nothing thrown");
      continue;
    }
    const std::string numbers =
        "epoch 0 has 120 samples where " + std::to_string(120 + more) + " were promised";
    EXPECT_THAT(message({}), HasSubstr(numbers));
    EXPECT_THAT(message({2}), HasSubstr(" were promised (process 0 of 2)"));
    const std::string from = run(options, {}, {}, 2).positions.back();
    EXPECT_THAT(message({}, from), HasSubstr(numbers)) << "what was before the break counts too";
  }
}

TEST(OrderChain, APositionThatHasLostSamplesDoesNotEndItsEpochQuietly) {
  ShardSets sets;
  PipelineOptions options = options_of(sets.urls({200}, false));
  options.epochs.passes = 3;
  Position position = Position::from_json(run(options, {}, {}, 5).positions.back());
  for (std::size_t i = 0; i < 4; ++i) position.streams[i].ended = true;
  EXPECT_THAT(message_of_chain([&] { run(options, {}, position.to_json()); }),
              HasSubstr("where 600 were promised"));
}

/// The set with a byte of a shard changed.
std::vector<std::string> damaged(ShardSets& sets, const testing::TempDir& folder, KeyedRng& rng) {
  std::vector<std::string> shards = sets.urls({17, 5, 41, 1, 23, 9, 30, 14}, rng.below(2) == 0);
  std::string& shard = shards[rng.below(shards.size())];
  std::string bytes = testing::read_file(shard);
  bytes[rng.below(bytes.size())] ^= static_cast<char>(1 + rng.below(255));
  const std::string path = folder / ("d" + std::to_string(rng.below(1U << 30U)) + ".tar");
  testing::write_file(path, bytes);
  const std::string index = wds::index_url(shard);
  if (std::filesystem::exists(index)) std::filesystem::copy_file(index, wds::index_url(path));
  shard = path;
  return shards;
}

// What faults have cost is known at every break: no epoch ends in a fault that has lost no more.
TEST(OrderChain, SamplesThatAreSkippedAreAccountedForThroughBreaks) {
  ShardSets sets;
  const testing::TempDir folder;
  for (std::uint64_t seed = 0; seed < testing::thinned(30U); ++seed) {
    KeyedRng rng({.seed = seed});
    PipelineOptions options = options_of(damaged(sets, folder, rng));
    options.indexed = true;
    options.faults.on_fault = rng.below(4) == 0 ? wds::OnFault::kStop : wds::OnFault::kSkip;
    options.epochs.passes = static_cast<std::uint32_t>(rng.below(4));
    options.epochs.samples = static_cast<std::int64_t>(rng.below(2) * (1 + rng.below(300)));
    options.shuffle.buffer_samples = static_cast<std::int64_t>(rng.below(2) * 10);
    options.epochs.count = 2;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(options));
    const Layout layout = any_layout(rng);
    const History whole = run(options, layout);
    for (std::size_t step = rng.below(3); step + 1 < whole.steps.size(); step += 2) {
      const History after = run(options, layout, whole.positions[step]);
      // What damages a shard's end is met when it is read to there, not behind it: it may not stop
      // a run that has gone on.
      if (options.faults.on_fault == wds::OnFault::kStop) continue;
      const auto rest = whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1;
      EXPECT_TRUE(after.steps == std::vector(rest, whole.steps.end()))
          << name_of(layout) << " after step " << step;
    }
  }
}

TEST(OrderChain, WhatNobodyCanRepeatIsRefusedBeforeItBegins) {
  ShardSets sets;
  PipelineOptions options = options_of_liar(-117);
  options.epochs.samples = 100;
  EXPECT_THAT(message_of_chain([&] { Pipeline{options}; }),
              HasSubstr("an epoch of 100 samples in 12 streams cannot be made of the source's 3"));
  options = options_of(sets.urls({64, 0}, false));
  options.mix = {.parts = {{.weight = 1, .num_shards = 1}, {.weight = 1, .num_shards = 1}},
                 .end = wds::MixEnd::kRepeat};
  EXPECT_THAT(message_of_chain([&] { Pipeline{options}; }), HasSubstr("no sample to repeat"));
}

}  // namespace
}  // namespace millrace::pipeline
