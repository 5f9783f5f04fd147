// What an epoch's ledgers say is what there was: what came out, what faults have cost and what a
// filter left out are together what was promised, whatever the layout, and wherever a run was
// broken off. Random set-ups: damage of several kinds, filters, shares, mixes, passes, repeats,
// filled batches, a cache of pictures. In the ordinary suite a few of them, with MILLRACE_LONG set
// 240.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/decoded_cache.h"
#include "decode/transforms/random_crop.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/epoch_length.h"
#include "tests/pipeline/layout_runs.h"
#include "tests/support/effort.h"
#include "tests/support/small_png.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/sample_selection.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::AnyOf;
using testing::EpochSums;
using ::testing::HasSubstr;
using testing::History;
using testing::Layout;
using testing::run;

constexpr std::size_t kTarBlock = 512;
constexpr std::int64_t kLedgerSlots = 24;  // of a step of all devices

/// What may be wrong with a sample.
enum class Harm { kNone, kLabel, kPayload, kHeader };

/// Shards of samples with a class, a number in JSON and a picture, some of which are damaged.
class HarmedShards {
 public:
  explicit HarmedShards(KeyedRng& rng) : rng_(rng) {}

  std::vector<std::string> write(bool harmed) {
    std::vector<std::string> urls;
    for (std::uint64_t left = 1 + rng_.below(5); left > 0; --left)
      urls.push_back(write_shard(static_cast<int>(1 + rng_.below(40)), harmed));
    return urls;
  }

 private:
  Harm any_harm() {
    constexpr std::array<Harm, 3> kHarms = {Harm::kLabel, Harm::kPayload, Harm::kHeader};
    return rng_.below(12) == 0 ? kHarms[rng_.below(kHarms.size())] : Harm::kNone;
  }

  std::string write_shard(int count, bool harmed) {
    std::string url = folder_ / (std::to_string(num_shards_++) + ".tar");
    testing::TarBuilder tar;
    std::vector<std::size_t> flips;  // behind the index's back
    for (int i = 0; i < count; ++i) {
      const std::string key = std::to_string(num_shards_) + "-" + std::to_string(i);
      const Harm harm = harmed ? any_harm() : Harm::kNone;
      if (harm == Harm::kHeader) flips.push_back(tar.size());
      tar.file(key + ".cls", harm == Harm::kLabel ? "x" : std::to_string(i % 3));
      tar.file(key + ".json", "{\"n\": " + std::to_string(i) + "}");
      if (harm == Harm::kPayload) flips.push_back(tar.size() - kTarBlock);
      tar.file(key + ".png", testing::small_png({5, 5}, i % 4));
    }
    std::string bytes = tar.end().bytes();
    testing::write_file(url, bytes);
    if (rng_.below(3) != 0)
      wds::write_index(wds::build_index(io::UrlOpener(), url), wds::index_url(url));
    for (const std::size_t at : flips) bytes[at] = static_cast<char>(bytes[at] ^ 1);
    testing::write_file(url, bytes);
    if (harmed && rng_.below(10) == 0) std::filesystem::remove(url);
    return url;
  }

  testing::TempDir folder_;
  KeyedRng& rng_;
  int num_shards_ = 0;
};

const std::vector<Layout> kLedgerLayouts = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2},
                                            {1, 4}, {2, 2}, {2, 3}, {4, 3}, {6, 2}};

Layout any_ledger_layout(KeyedRng& rng) { return kLedgerLayouts[rng.below(kLedgerLayouts.size())]; }

PipelineOptions ledger_options() {
  PipelineOptions options;
  options.indexed = true;
  options.fields = {LabelField{.classes = 3}};
  options.split.streams = 12;
  options.batch.size = kLedgerSlots;
  options.faults = {.on_fault = wds::OnFault::kSkip};
  options.resources = {.threads = 1, .io_threads = 1, .prefetch = 1, .autotune = {.on = false}};
  options.epochs.count = 2;
  return options;
}

void draw_harmed_sets(PipelineOptions& options, HarmedShards& shards, bool harmed, KeyedRng& rng) {
  options.shards = shards.write(harmed);
  if (rng.below(3) != 0) return;
  const std::array<wds::MixEnd, 3> ends = {wds::MixEnd::kStop, wds::MixEnd::kRepeat,
                                           wds::MixEnd::kDrop};
  options.mix = {.parts = {{.weight = 2, .num_shards = options.shards.size()}},
                 .end = ends[rng.below(ends.size())]};
  const auto others = shards.write(harmed);
  options.mix.parts.push_back({.weight = 1, .num_shards = others.size()});
  options.shards.insert(options.shards.end(), others.begin(), others.end());
}

void draw_ledger_shuffle(PipelineOptions& options, KeyedRng& rng) {
  wds::ShuffleOptions& shuffle = options.shuffle;
  shuffle.seed = rng.below(100);
  if (rng.below(2) == 0) {
    shuffle.shards = rng.below(2) == 0;
    shuffle.buffer_samples = static_cast<std::int64_t>(rng.below(3) * 9);
    shuffle.open_shards = static_cast<int>(1 + rng.below(2));
    return;
  }
  shuffle.order = wds::Order::kPermutation;
  if (rng.below(2) == 0) shuffle.where = "json.n % 3 != 1 and json.n < 33";
  const auto shares = rng.below(4);
  if (shares == 0) shuffle.balance = "json.n % 4";
  if (shares == 1) shuffle.weight = "json.n";
  if (shares == 2) shuffle.copies = 2;
}

void draw_ledger_epoch(PipelineOptions& options, KeyedRng& rng) {
  options.epochs.passes = static_cast<std::uint32_t>(rng.below(4));
  if (rng.below(3) == 0) options.epochs.samples = static_cast<std::int64_t>(1 + rng.below(150));
  options.batch.fill = rng.below(3) == 0;
  if (rng.below(3) != 0) return;
  options.fields.insert(options.fields.begin(),
                        ImageField{.transforms = {decode::RandomCrop{{4, 4}}}});
  options.resources.decoded =
      std::make_shared<decode::DecodedCache>(decode::DecodedCacheOptions{.bytes = 1 << 20});
}

PipelineOptions any_ledger(HarmedShards& shards, KeyedRng& rng) {
  PipelineOptions options = ledger_options();
  draw_harmed_sets(options, shards, rng.below(4) != 0, rng);
  draw_ledger_shuffle(options, rng);
  draw_ledger_epoch(options, rng);
  return options;
}

/// Whole shards, of which nobody knows how many samples they have: streams differ in length.
PipelineOptions any_uncounted(HarmedShards& shards, KeyedRng& rng) {
  PipelineOptions options = ledger_options();
  options.indexed = options.scan = false;
  options.shards = shards.write(true);
  options.split.streams = static_cast<int>(1 + rng.below(options.shards.size()));
  options.shuffle.buffer_samples = static_cast<std::int64_t>(rng.below(3) * 9);
  options.epochs.passes = static_cast<std::uint32_t>(rng.below(3));
  return options;
}

/// Null where nothing is left, or nothing is there; a set-up that is refused may be no other.
std::optional<PipelineOptions> counted_options(const PipelineOptions& options) {
  try {
    PipelineOptions counted = with_counts(options);
    const Pipeline pipeline(counted);
    if (global_samples_per_epoch(counted).value_or(0) == 0) return {};
    return counted;
  } catch (const Error& error) {
    EXPECT_THAT(error.code(),
                AnyOf(ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kCorrupt))
        << error.what();
    return {};
  }
}

using SampleCounts = std::map<std::string, std::size_t>;

/// How often each sample came in [first, end) of the steps.
SampleCounts times_in(const History& history, std::size_t first, std::size_t end) {
  SampleCounts counts;
  for (std::size_t i = first; i < end; ++i)
    for (const std::string& row : history.steps[i]) ++counts[row];
  return counts;
}

std::size_t num_counted(const SampleCounts& counts) {
  std::size_t sum = 0;
  for (const auto& [row, count] : counts) sum += count;
  return sum;
}

std::size_t epoch_begin(const History& history, std::size_t epoch) {
  return epoch == 0 ? 0 : history.epochs[epoch - 1].step;
}

std::string ledger_text(const EpochSums& sums) {
  return "emitted " + std::to_string(sums.emitted) + ", skipped " + std::to_string(sums.skipped) +
         ", filtered " + std::to_string(sums.filtered) + ", unknown " +
         std::to_string(sums.unknown_shards);
}

std::string ledger_text(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  std::string text = "order " + std::string(word_of(shuffle.order, wds::kOrderWords)) +
                     ", passes " + std::to_string(options.epochs.passes) + ", samples " +
                     std::to_string(options.epochs.samples) + ", shards " +
                     std::to_string(options.shards.size()) + ", copies " +
                     std::to_string(shuffle.copies);
  if (!options.mix.parts.empty())
    text += ", mix " + std::string(word_of(options.mix.end, wds::kMixEndWords));
  if (shuffle.chooses())
    text += ", " + shuffle.where + "|" + shuffle.balance + "|" + shuffle.weight;
  if (options.batch.fill) text += ", fill";
  return text;
}

/// Samples that the selection could not look at: lost, and not promised.
std::uint64_t num_unselected(const PipelineOptions& options) {
  return options.found.selection ? options.found.selection->damaged().size() : 0;
}

/// Lost samples are replaced where an epoch has a length that samples are repeated for, as far as
/// there are others, or which a mix has for other reasons; and of those not selected it has then
/// those in its part of a pass.
void expect_balanced(const PipelineOptions& options, const EpochSums& sums) {
  const auto promised = static_cast<std::uint64_t>(*global_samples_per_epoch(options));
  const std::uint64_t all = sums.emitted + sums.skipped;
  const bool is_plain = options.epochs.samples == 0 && options.mix.parts.empty();
  const bool repeats = repeats_samples(options) ||
                       (!options.mix.parts.empty() && options.mix.end == wds::MixEnd::kRepeat);
  EXPECT_LE(sums.emitted, promised) << ledger_text(sums);
  if (sums.unknown_shards > 0) return;
  if (is_plain) {
    EXPECT_EQ(all, promised + num_unselected(options)) << ledger_text(sums);
  } else if (repeats) {
    EXPECT_TRUE(sums.emitted == promised || sums.skipped > 0) << ledger_text(sums);
  } else {
    EXPECT_GE(all, promised) << ledger_text(sums);
  }
}

/// Of a set of which an epoch has each sample once, or as often as it has passes.
void expect_each_as_often(const PipelineOptions& options, const SampleCounts& counts) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  if (options.epochs.samples > 0 || !options.mix.parts.empty() || shuffle.copies > 1 ||
      !shuffle.balance.empty() || !shuffle.weight.empty())
    return;
  std::map<std::string, std::size_t> by_key;
  for (const auto& [row, count] : counts) by_key[row.substr(0, row.find(' '))] += count;
  for (const auto& [key, count] : by_key)
    EXPECT_LE(count, std::max<std::uint32_t>(1, options.epochs.passes)) << key;
}

void expect_right(const PipelineOptions& options, const History& history) {
  ASSERT_EQ(history.epochs.size(), options.epochs.count);
  for (std::size_t epoch = 0; epoch < history.epochs.size(); ++epoch) {
    const EpochSums& sums = history.epochs[epoch];
    const SampleCounts counts = times_in(history, epoch_begin(history, epoch), sums.step);
    EXPECT_EQ(num_counted(counts), sums.emitted) << ledger_text(sums);
    EXPECT_EQ(sums.filtered, options.found.selection ? options.found.selection->filtered() : 0);
    expect_balanced(options, sums);
    expect_each_as_often(options, counts);
  }
}

/// The rest of a run that was broken off: by any layout that may, and has a process of which not
/// all is lost, else by the same one.
History continued_run(const PipelineOptions& options, const Layout& before,
                      const std::string& position, KeyedRng& rng, std::string& text) {
  const Layout other = options.found.counts ? any_ledger_layout(rng) : before;
  text = name_of(other);
  try {
    return run(options, other, position);
  } catch (const Error& refused) {
    EXPECT_THAT(refused.code(), AnyOf(ErrorCode::kInvalidArgument, ErrorCode::kNotFound));
    EXPECT_THAT(
        refused.message(),
        AnyOf(HasSubstr("has no sample: skipped"), HasSubstr("a stream ended before the others"),
              HasSubstr("samples that later ones replace"), HasSubstr("filled in rounds")));
  }
  text = name_of(before);
  return run(options, before, position);
}

/// What streams lose behind an epoch's last sample, where others took the place of what they lost
/// before, is not read once more after it.
void expect_same_sums(const EpochSums& sums, const EpochSums& whole, bool was_over) {
  if (!was_over) {
    EXPECT_EQ(ledger_text(sums), ledger_text(whole));
    return;
  }
  EXPECT_EQ(sums.emitted, whole.emitted);
  EXPECT_EQ(sums.filtered, whole.filtered);
  EXPECT_LE(sums.skipped, whole.skipped);
}

/// Samples and ledgers of a run in two parts are those of the whole one.
void expect_same_in_parts(const PipelineOptions& options, const Layout& layout,
                          const History& whole, KeyedRng& rng) {
  const std::size_t cut = 1 + rng.below(whole.steps.size() - 1);
  const History first = run(options, layout, {}, cut);
  std::string text;
  const History rest = continued_run(options, layout, first.positions.back(), rng, text);
  SCOPED_TRACE(name_of(layout) + ", after " + std::to_string(cut) + " of " +
               std::to_string(whole.steps.size()) + " steps " + text);
  EXPECT_EQ(first.epochs.size() + rest.epochs.size(), whole.epochs.size());
  for (std::size_t i = 0; i < rest.epochs.size(); ++i) {
    const std::size_t epoch = first.epochs.size() + i;
    const Position begin = Position::from_json(first.positions.back());
    expect_same_sums(rest.epochs[i], whole.epochs[epoch],
                     i == 0 && !begin.streams.empty() && begin.all_ended());
    SampleCounts counts = times_in(rest, epoch_begin(rest, i), rest.epochs[i].step);
    if (i == 0)
      for (const auto& [row, count] : times_in(first, epoch_begin(first, epoch), cut))
        counts[row] += count;
    EXPECT_EQ(counts, times_in(whole, epoch_begin(whole, epoch), whole.epochs[epoch].step));
  }
}

void expect_same_on_another_layout(const PipelineOptions& options, const History& whole,
                                   const Layout& layout) {
  const History other = run(options, layout);
  SCOPED_TRACE(name_of(layout));
  ASSERT_EQ(other.epochs.size(), whole.epochs.size());
  for (std::size_t epoch = 0; epoch < whole.epochs.size(); ++epoch) {
    EXPECT_EQ(ledger_text(other.epochs[epoch]), ledger_text(whole.epochs[epoch]));
    EXPECT_EQ(times_in(other, epoch_begin(other, epoch), other.epochs[epoch].step),
              times_in(whole, epoch_begin(whole, epoch), whole.epochs[epoch].step));
  }
}

// What is lost of one pass is less than what is missing of all those that it was to have.
TEST(LedgerProperty, AStreamOfWhichEachPassIsLostEndsNoOtherProcess) {
  const testing::TempDir folder;
  PipelineOptions options = ledger_options();
  for (int shard = 0; shard < 4; ++shard) {
    testing::TarBuilder tar;
    for (int i = 0; i < 10; ++i)
      tar.file(std::to_string(shard) + "-" + std::to_string(i) + ".cls", "1");
    options.shards.push_back(folder / (std::to_string(shard) + ".tar"));
    testing::write_file(options.shards.back(), tar.end().bytes());
    wds::write_index(wds::build_index(io::UrlOpener(), options.shards.back()),
                     wds::index_url(options.shards.back()));
  }
  std::filesystem::remove(options.shards.back());
  options.split.streams = 4;
  for (const wds::Order order : {wds::Order::kMillrace, wds::Order::kPermutation}) {
    options.shuffle.order = order;
    options.epochs = {.count = 1, .samples = 400};
    const History history = run(options, {2});
    ASSERT_EQ(history.epochs.size(), 1U);
    EXPECT_GE(history.epochs[0].emitted, 300U);
    EXPECT_GE(history.epochs[0].skipped, 10U);
  }
}

std::uint64_t num_ledgers() { return testing::is_long() ? 240U : testing::thinned(24U); }

TEST(LedgerProperty, AResumedLedgerOfShardsOfUnknownSizeIsThatOfAnUnbrokenRun) {
  for (std::uint64_t seed = 0; seed < num_ledgers() / 2; ++seed) {
    KeyedRng rng({.seed = seed});
    HarmedShards shards(rng);
    const PipelineOptions options = any_uncounted(shards, rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ledger_text(options));
    try {
      const History whole = run(options, {});
      expect_same_in_parts(options, {}, whole, rng);
    } catch (const Error& none) {
      EXPECT_EQ(none.code(), ErrorCode::kNotFound) << none.what();
    }
  }
}

/// False: that seed makes nothing that can be read.
bool checks_ledgers_of(std::uint64_t seed) {
  KeyedRng rng({.seed = seed});
  HarmedShards shards(rng);
  const auto options = counted_options(any_ledger(shards, rng));
  if (!options) return false;
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ledger_text(*options));
  try {
    const Layout layout = any_ledger_layout(rng);
    const History whole = run(*options, layout);
    expect_right(*options, whole);
    expect_same_on_another_layout(*options, whole, any_ledger_layout(rng));
    expect_same_in_parts(*options, layout, whole, rng);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound) << "all is lost: " << error.what();
  }
  return true;
}

TEST(LedgerProperty, WhatCameAndWhatWasLostIsWhatWasPromisedThroughEveryBreak) {
  // A mix that had read ahead of what it gave, and a stream that lost all of three passes.
  for (const std::uint64_t seed : {794U, 1096U}) EXPECT_TRUE(checks_ledgers_of(seed));
  std::uint64_t done = 0;
  for (std::uint64_t seed = 0; done < num_ledgers() && !HasFatalFailure(); ++seed)
    done += checks_ledgers_of(seed) ? 1 : 0;
}

}  // namespace
}  // namespace millrace::pipeline
