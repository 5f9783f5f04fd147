#include "wds/sample_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "io/base/error.h"
#include "tests/support/code_of.h"
#include "tests/support/effort.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/index_text.h"
#include "wds/detail/webdataset_shuffle.h"
#include "wds/reshard.h"
#include "wds/sample_counts.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

/// Shards of growing length; keys "s<shard>-<number>".
struct Set {
  MemoryOpener opener;
  std::shared_ptr<const Strings> shards;
  std::size_t num_samples = 0;
};

Set make_set(int num_shards, int samples = 5) {
  Set set;
  Strings names;
  for (int s = 0; s < num_shards; ++s) {
    TarBuilder tar;
    for (int i = 0; i < samples + s; ++i) {
      const std::string key =
          std::string("s").append(std::to_string(s)).append("-").append(std::to_string(i));
      tar.file(key + ".txt", std::string(static_cast<std::size_t>(i) * 100, 'x'))
          .file(key + ".cls", "1");
      ++set.num_samples;
    }
    names.push_back(std::to_string(s) + ".tar");
    set.opener.files[names.back()] = tar.end().bytes();
  }
  set.shards = std::make_shared<const Strings>(std::move(names));
  return set;
}

Strings keys_of(const SampleBlock& block) {
  Strings keys;
  for (const Sample& sample : block.samples) keys.push_back(sample.key);
  return keys;
}

Strings drain(SampleStream& stream) {
  Strings keys;
  for (SampleBlock block; stream.next(block);) {
    for (std::string& key : keys_of(block)) keys.push_back(std::move(key));
  }
  return keys;
}

Strings all_keys(const Set& set, const StreamSpec& spec, FaultLedger& ledger) {
  SampleStream stream(spec, set.opener, ledger);
  return drain(stream);
}
Strings all_keys(const Set& set, const StreamSpec& spec) {
  FaultLedger ledger;
  return all_keys(set, spec, ledger);
}

/// Expects the keys of all streams of an epoch to be the set's, each once; `spec` gives the number
/// of streams. Returns their numbers of samples.
std::set<std::size_t> expect_each_once(const Set& set, StreamSpec spec, FaultLedger& ledger) {
  std::multiset<std::string> seen;
  std::set<std::size_t> lengths;
  for (spec.stream = 0; spec.stream < spec.num_streams; ++spec.stream) {
    const Strings keys = all_keys(set, spec, ledger);
    lengths.insert(keys.size());
    seen.insert(keys.begin(), keys.end());
  }
  EXPECT_EQ(seen.size(), set.num_samples) << spec.num_streams;
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), set.num_samples);
  return lengths;
}
std::set<std::size_t> expect_each_once(const Set& set, const StreamSpec& spec) {
  FaultLedger ledger;
  return expect_each_once(set, spec, ledger);
}

void expect_equal(const StreamPosition& left, const StreamPosition& right) {
  const auto refs = [](const std::vector<StreamPosition::SampleRef>& list) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> pairs;
    for (const auto& one : list) pairs.emplace_back(one.shard, one.offset);
    return pairs;
  };
  EXPECT_EQ(left.samples_out, right.samples_out);
  EXPECT_EQ(left.samples_in, right.samples_in);
  EXPECT_EQ(left.shard, right.shard);
  EXPECT_EQ(left.offset, right.offset);
  EXPECT_EQ(left.earlier_passes, right.earlier_passes);
  EXPECT_EQ(left.turn, right.turn);
  EXPECT_EQ(refs(left.open), refs(right.open));
  EXPECT_EQ(refs(left.buffered), refs(right.buffered));
}

/// After every seventh sample, a new stream at the position to which the trail leads returns what
/// the old one would have, and so it does at the stream's own position behind each block.
void expect_continues_anywhere(const Set& set, const StreamSpec& spec) {
  const Strings whole = all_keys(set, spec);
  FaultLedger ledger;
  const auto expect_rest = [&](const StreamPosition& position, std::size_t given) {
    SampleStream again(spec, position, set.opener, ledger);
    EXPECT_EQ(drain(again),
              Strings(whole.begin() + static_cast<std::ptrdiff_t>(given), whole.end()))
        << given << " given, buffer " << spec.shuffle.buffer_samples;
  };
  SampleStream stream(spec, set.opener, ledger);
  StreamPosition before;
  std::size_t given = 0;
  for (SampleBlock block; stream.next(block);) {
    ASSERT_EQ(block.trail->size(), block.samples.size());
    constexpr std::size_t kStep = testing::kSanitized ? 37 : 7;
    for (std::size_t n = given % kStep + 1; n < block.samples.size(); n += kStep) {
      StreamPosition position = before;
      block.trail->advance(position, n);
      expect_rest(position, given + n);
    }
    before = stream.position();
    given += block.samples.size();
    expect_rest(before, given);
  }
  EXPECT_EQ(given, whole.size());
}

TEST(SampleStream, TrailsLeadFromAnyEarlierBlock) {
  const Set set = make_set(40, 3);
  for (const std::int64_t buffer : {0, 30}) {
    for (const int open : {1, 3}) {
      FaultLedger ledger;
      SampleStream stream(
          {.shards = set.shards,
           .shuffle = {.shards = true, .buffer_samples = buffer, .open_shards = open, .seed = 5}},
          set.opener, ledger);
      stream.prefill(11, 100'000);
      StreamPosition followed;
      for (SampleBlock block; stream.next(block);) {
        block.trail->advance(followed, block.samples.size());
        // A block that is not full has seen the end of a pass as well.
        if (block.full()) expect_equal(followed, stream.position());
      }
      EXPECT_EQ(followed.samples_out, set.num_samples);
    }
  }
}

TEST(SampleStream, StreamsOfAnEpochGiveEverySampleOnce) {
  const Set set = make_set(11);
  for (const Order order : {Order::kMillrace, Order::kWebDataset}) {
    expect_each_once(set,
                     {.shards = set.shards,
                      .shuffle = {.shards = true, .buffer_samples = 13, .seed = 3, .order = order},
                      .num_streams = 4});
  }
}

TEST(SampleStream, SameSpecSameOrderAndAnotherEpochAnother) {
  const Set set = make_set(6);
  StreamSpec spec{.shards = set.shards,
                  .shuffle = {.shards = true, .buffer_samples = 10, .seed = 3}};
  const Strings first = all_keys(set, spec);
  EXPECT_EQ(all_keys(set, spec), first);
  spec.epoch = 1;
  EXPECT_NE(all_keys(set, spec), first);
  spec.epoch = 0;
  spec.shuffle.seed = 4;
  EXPECT_NE(all_keys(set, spec), first);
}

TEST(SampleStream, WithoutShuffleItIsTheShardsOrder) {
  const Set set = make_set(2, 2);
  EXPECT_EQ(all_keys(set, {.shards = set.shards}),
            (Strings{"s0-0", "s0-1", "s1-0", "s1-1", "s1-2"}));
}

TEST(SampleStream, ShufflesInWebDatasetsOrder) {
  const Set set = make_set(4, 20);
  const Strings plain = all_keys(set, {.shards = set.shards});
  const StreamSpec spec{
      .shards = set.shards,
      .shuffle = {
          .buffer_samples = 30, .initial_samples = 10, .seed = 9, .order = Order::kWebDataset}};
  EXPECT_EQ(all_keys(set, spec), detail::buffer_shuffled(plain, 30, 10, 9));
}

TEST(SampleStream, TheBuffersBytesAreBounded) {
  const Set set = make_set(3, 30);
  const StreamSpec spec{.shards = set.shards,
                        .shuffle = {.buffer_samples = 1000, .buffer_bytes = 8000, .seed = 1}};
  FaultLedger ledger;
  SampleStream stream(spec, set.opener, ledger);
  SampleBlock block;
  ASSERT_TRUE(stream.next(block));
  EXPECT_LT(stream.position().buffered.size(), 60U);
  EXPECT_EQ(drain(stream).size() + block.samples.size(), set.num_samples);
}

TEST(SampleStream, PrefillingChangesNoOrder) {
  const Set set = make_set(6, 30);
  for (const Order order : {Order::kMillrace, Order::kWebDataset}) {
    for (const std::int64_t buffer : {0, 40, 1000}) {
      const StreamSpec spec{.shards = set.shards,
                            .shuffle = {.buffer_samples = buffer, .seed = 1, .order = order}};
      FaultLedger ledger;
      SampleStream stream(spec, set.opener, ledger);
      for (const std::size_t samples : {3U, 7U, 25U, 60U}) stream.prefill(samples, 1'000'000);
      EXPECT_LE(stream.position().buffered.size(),
                std::min<std::size_t>(60, static_cast<std::size_t>(buffer)));
      EXPECT_EQ(drain(stream), all_keys(set, spec)) << buffer;
    }
  }
}

TEST(SampleStream, DrainsItsBufferWhenAllIsRead) {
  const Set set = make_set(3, 40);
  const StreamSpec spec{.shards = set.shards, .shuffle = {.buffer_samples = 70, .seed = 1}};
  FaultLedger ledger;
  SampleStream stream(spec, set.opener, ledger);
  std::size_t given = 0;
  for (SampleBlock block; stream.next(block);) {
    given += block.samples.size();
    EXPECT_EQ(stream.is_draining(), given < set.num_samples && given + 70 > set.num_samples)
        << given;
  }
}

TEST(SampleStream, ContinuesExactlyAtAnyPosition) {
  const Set set = make_set(40, 3);
  for (const Order order : {Order::kMillrace, Order::kWebDataset}) {
    for (const std::int64_t buffer : {0, 7, 100, 5000}) {
      expect_continues_anywhere(set, {.shards = set.shards,
                                      .shuffle = {.shards = true,
                                                  .buffer_samples = buffer,
                                                  .initial_samples = 30,
                                                  .seed = 8,
                                                  .order = order},
                                      .num_streams = 2,
                                      .stream = 1,
                                      .epoch = 3});
    }
  }
}

TEST(SampleStream, OpenShardsTakeTurns) {
  const Set set = make_set(3, 2);  // shards of 2, 3 and 4
  EXPECT_EQ(all_keys(set, {.shards = set.shards, .shuffle = {.open_shards = 2}}),
            (Strings{"s0-0", "s1-0", "s0-1", "s1-1", "s2-0", "s1-2", "s2-1", "s2-2", "s2-3"}));
}

TEST(SampleStream, ContinuesExactlyWithAnyNumberOfOpenShards) {
  const Set set = make_set(20, 3);  // 250 samples in two streams
  for (const int open : {2, 3, 7, 100}) {
    for (const std::int64_t buffer : {0, 30}) {
      for (const std::uint64_t samples : {0U, 280U}) {
        expect_continues_anywhere(
            set,
            {.shards = set.shards,
             .shuffle = {.shards = true, .buffer_samples = buffer, .open_shards = open, .seed = 8},
             .num_streams = 2,
             .stream = 1,
             .max_samples = samples});
      }
    }
  }
}

TEST(SampleStream, OpenShardsLoseAndRepeatNothingWhateverIsDamaged) {
  Set set = make_set(12, 5);
  set.opener.files["3.tar"].resize(7 * 512);
  set.opener.files.erase("5.tar");
  const StreamSpec one{.shards = set.shards, .shuffle = {.shards = true, .seed = 4}};
  StreamSpec four = one;
  four.shuffle.open_shards = 4;
  FaultLedger one_by_one({.on_fault = OnFault::kSkip});
  FaultLedger in_turn({.on_fault = OnFault::kSkip});
  Strings expected = all_keys(set, one, one_by_one);
  Strings keys = all_keys(set, four, in_turn);
  EXPECT_NE(keys, expected);
  std::sort(expected.begin(), expected.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(in_turn.skipped(), one_by_one.skipped());
}

void add_indexes(Set& set) {
  const TempDir dir;
  for (const std::string& shard : *set.shards) {
    write_index(build_index(set.opener, shard), dir / "i", io::Replace::kAtomically);
    set.opener.files[index_url(shard)] = testing::read_file(dir / "i");
  }
}

TEST(SampleStream, WithIndexesStreamsDifferByAtMostOneSample) {
  Set set = make_set(9, 3);
  add_indexes(set);
  for (const int streams : {1, 2, 4, 7, 20}) {
    const StreamSpec spec{.shards = set.shards,
                          .shuffle = {.shards = true, .buffer_samples = 5, .seed = 2},
                          .num_streams = streams,
                          .indexed = true,
                          .found = {.counts = sample_counts(set.opener, *set.shards)}};
    ASSERT_NE(spec.found.counts, nullptr);
    const std::set<std::size_t> lengths = expect_each_once(set, spec);
    EXPECT_LE(*lengths.rbegin() - *lengths.begin(), 1U) << streams;
  }
}

TEST(SampleStream, ContinuesInTheMiddleOfAPiece) {
  Set set = make_set(3, 150);
  add_indexes(set);
  expect_continues_anywhere(set, {.shards = set.shards,
                                  .shuffle = {.shards = true, .buffer_samples = 20, .seed = 2},
                                  .num_streams = 2,
                                  .stream = 1,
                                  .indexed = true,
                                  .found = {.counts = sample_counts(set.opener, *set.shards)}});
}

TEST(SampleStream, WithAnIndexTheAccountIsTheIndexsCount) {
  Set set = make_set(3, 10);
  add_indexes(set);
  set.opener.files["1.tar"].resize(8 * 1024);
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  const Strings keys = all_keys(set, {.shards = set.shards, .indexed = true}, ledger);
  // Samples of a stream are not counted as emitted yet: decoding may still skip them.
  EXPECT_EQ(keys.size() + ledger.skipped(), set.num_samples);
}

// As a copy with other labels that is renamed over the shard, with its own index.
TEST(SampleStream, AShardThatIsReplacedBetweenEpochsIsAFault) {
  Set set = make_set(3, 4);
  add_indexes(set);
  StreamSpec spec{.shards = set.shards, .indexed = true};
  EXPECT_EQ(all_keys(set, spec).size(), set.num_samples);
  std::string& shard = set.opener.files["1.tar"];
  const std::size_t payload = 1024;  // of the first class, behind two headers
  shard[payload] = static_cast<char>(shard[payload] ^ 1);
  add_indexes(set);
  spec.epoch = 1;
  FaultLedger fail;
  EXPECT_EQ(testing::code_of([&] { all_keys(set, spec, fail); }), ErrorCode::kIo);
  spec.found.first_indexes = std::make_shared<FirstIndexes>();
  EXPECT_EQ(all_keys(set, spec).size(), set.num_samples) << "another run";
}

TEST(SampleStream, WithAScanTheAccountIsTheScansCount) {
  for (const bool gone : {true, false}) {
    for (const int streams : {1, 2}) {
      Set set = make_set(3, 10);
      StreamSpec spec{.shards = set.shards, .num_streams = streams};
      spec.found.scans = scan_shards(set.opener, *set.shards, std::vector<bool>(3, true));
      auto counts = std::make_shared<std::vector<std::uint64_t>>();
      for (const auto& scan : *spec.found.scans) counts->push_back(scan->count);
      spec.found.counts = counts;
      if (gone)
        set.opener.files.erase("1.tar");
      else
        set.opener.files["1.tar"].resize(8 * 1024);
      std::size_t samples = 0;
      FaultLedger ledger({.on_fault = OnFault::kSkip});
      for (spec.stream = 0; spec.stream < streams; ++spec.stream)
        samples += all_keys(set, spec, ledger).size();
      EXPECT_EQ(samples + ledger.skipped(), set.num_samples) << gone << streams;
      EXPECT_EQ(ledger.unknown_shards(), 0U) << gone << streams;
    }
  }
}

// A file that ends before the next sample's offset cannot be opened there.
TEST(SampleStream, AShardCutAnywhereBesideItsIndexKeepsTheAccount) {
  Set set = make_set(2, 6);
  add_indexes(set);
  const std::string whole = set.opener.files["0.tar"];
  for (std::size_t cut = 0; cut < whole.size(); cut += 128) {
    set.opener.files["0.tar"] = whole.substr(0, cut);
    FaultLedger ledger({.on_fault = OnFault::kSkip});
    const Strings keys = all_keys(set, {.shards = set.shards, .indexed = true}, ledger);
    EXPECT_EQ(keys.size() + ledger.skipped(), set.num_samples) << cut;
    EXPECT_EQ(ledger.unknown_shards(), 0U);
    // One for what was cut off, one for the sample before, whose end was not seen: not one each.
    EXPECT_LE(ledger.entries().size(), 2U) << cut;
  }
}

TEST(SampleStream, ADamagedIndexCostsNothingOfItsShard) {
  Set set = make_set(5, 7);
  add_indexes(set);
  const std::string sound = set.opener.files[index_url("2.tar")];
  const std::string wrong_count = [&] {
    std::string text = sound;
    const std::size_t count = text.find("\"count\":9");
    text[count + 8] = '6';
    return text;
  }();
  for (const std::string& damaged :
       {sound.substr(0, sound.size() / 2), std::string("{"), std::string(), wrong_count}) {
    set.opener.files[index_url("2.tar")] = sound;
    const auto counts = sample_counts(set.opener, *set.shards);
    set.opener.files[index_url("2.tar")] = damaged;
    for (const int streams : {1, 3, 20}) {
      StreamSpec spec{.shards = set.shards,
                      .shuffle = {.shards = true, .buffer_samples = 5, .seed = 2},
                      .num_streams = streams,
                      .indexed = true,
                      .found = {.counts = counts}};
      FaultLedger ledger({.on_fault = OnFault::kFail});
      expect_each_once(set, spec, ledger);
      EXPECT_GE(ledger.warnings(), 1U);
      for (spec.stream = 0; spec.stream < streams; ++spec.stream) {
        const Strings with_damage = all_keys(set, spec);
        set.opener.files[index_url("2.tar")] = sound;
        EXPECT_EQ(with_damage, all_keys(set, spec)) << "the same samples in the same order";
        set.opener.files[index_url("2.tar")] = damaged;
      }
    }
  }
}

TEST(SampleStream, ContinuesInPiecesOfSeveralOpenShards) {
  Set set = make_set(5, 90);
  add_indexes(set);
  StreamSpec spec{.shards = set.shards,
                  .shuffle = {.shards = true, .buffer_samples = 20, .open_shards = 3, .seed = 2},
                  .num_streams = 3,
                  .indexed = true,
                  .found = {.counts = sample_counts(set.opener, *set.shards)}};
  expect_each_once(set, spec);
  for (spec.stream = 0; spec.stream < 3; ++spec.stream) expect_continues_anywhere(set, spec);
  StreamSpec scanned = spec;
  scanned.indexed = false;
  scanned.found.scans = scan_shards(set.opener, *set.shards, std::vector<bool>(5, true));
  for (spec.stream = scanned.stream = 0; spec.stream < 3; ++spec.stream, ++scanned.stream) {
    EXPECT_EQ(all_keys(set, scanned), all_keys(set, spec));
    expect_continues_anywhere(set, scanned);
  }
}

TEST(SampleStream, ContinuesInAPieceWhoseIndexIsDamaged) {
  Set set = make_set(3, 150);
  add_indexes(set);
  StreamSpec spec{.shards = set.shards,
                  .shuffle = {.shards = true, .buffer_samples = 20, .seed = 2},
                  .num_streams = 4,
                  .indexed = true,
                  .found = {.counts = sample_counts(set.opener, *set.shards)}};
  for (const std::string& shard : *set.shards) set.opener.files[index_url(shard)].resize(200);
  for (spec.stream = 0; spec.stream < 4; ++spec.stream) expect_continues_anywhere(set, spec);
}

TEST(SampleStream, ARequiredIndexThatIsDamagedOrMissingIsAFault) {
  Set set = make_set(3, 4);
  add_indexes(set);
  FaultLedger sound({.require_index = true});
  EXPECT_EQ(all_keys(set, {.shards = set.shards}, sound).size(), set.num_samples);
  set.opener.files[index_url("1.tar")] = "{";
  FaultLedger damaged({.require_index = true});
  EXPECT_THROW(all_keys(set, {.shards = set.shards}, damaged), Error);
  set.opener.files.erase(index_url("1.tar"));
  FaultLedger skip({.on_fault = OnFault::kSkip, .require_index = true});
  EXPECT_EQ(all_keys(set, {.shards = set.shards}, skip).size(), 4U + 6U);
  EXPECT_EQ(skip.entries().at(0).code, ErrorCode::kNotFound);
}

// Counts may come from a wrong index: samples beyond them belong to the last piece.
TEST(SampleStream, CountsThatAreTooLowLoseNothing) {
  Set set = make_set(3, 40);
  expect_each_once(set, {.shards = set.shards,
                         .num_streams = 4,
                         .found = {.counts = std::make_shared<const std::vector<std::uint64_t>>(
                                       std::vector<std::uint64_t>{30, 41, 20})}});
}

TEST(SampleStream, ALostShardCostsTheSamplesThatItsIndexOrAManifestSays) {
  Set set = make_set(4, 10);
  add_indexes(set);
  set.opener.files.erase("1.tar");
  set.opener.files["2.tar"].resize(2 * 512);
  set.opener.files.erase(index_url("2.tar"));
  FaultLedger unknown({.on_fault = OnFault::kSkip});
  all_keys(set, {.shards = set.shards}, unknown);
  EXPECT_EQ(unknown.skipped(), 11U + 1U);
  EXPECT_EQ(unknown.unknown_shards(), 1U);
  EXPECT_EQ(unknown.skipped_text(), "at least 12 samples (1 shard, number of samples unknown)");
  FaultLedger listed({.on_fault = OnFault::kSkip, .samples_of = [](const std::string& url) {
                        return url == "2.tar" ? std::optional<std::uint64_t>(12) : std::nullopt;
                      }});
  const Strings keys = all_keys(set, {.shards = set.shards, .indexed = true}, listed);
  EXPECT_EQ(listed.skipped(), 11U + 12U);
  EXPECT_EQ(listed.skipped_text(), "23 samples");
  EXPECT_EQ(keys.size() + listed.skipped(), set.num_samples);
  FaultLedger budget({.on_fault = OnFault::kSkip, .max_faults = 10});
  EXPECT_THROW(all_keys(set, {.shards = set.shards}, budget), Error) << "11 samples, one fault";
}

// Unwanted fields are not held, and change nothing else: order, counts, positions.
TEST(SampleStream, UnneededFieldsAreNotKept) {
  Set set = make_set(3, 90);
  StreamSpec all{.shards = set.shards,
                 .shuffle = {.shards = true, .buffer_samples = 60, .buffer_bytes = 90'000}};
  StreamSpec few = all;
  few.shard.suffixes = {"cls", "seg"};
  EXPECT_EQ(all_keys(set, few), all_keys(set, all));
  FaultLedger ledger;
  SampleStream stream(few, set.opener, ledger);
  SampleBlock block;
  ASSERT_TRUE(stream.next(block));
  for (const Sample& sample : block.samples) {
    EXPECT_EQ(sample.fields.size(), 1U);
    EXPECT_EQ(sample.num_bytes(), 1U);
  }
  SampleStream again(few, stream.position(), set.opener, ledger);
  EXPECT_EQ(drain(again), drain(stream));
}

TEST(SampleStream, APositionOfChangedShardsIsRefused) {
  Set set = make_set(2, 200);
  const StreamSpec spec{.shards = set.shards, .shuffle = {.buffer_samples = 50}};
  FaultLedger ledger;
  SampleStream stream(spec, set.opener, ledger);
  SampleBlock block;
  stream.next(block);
  const StreamPosition position = stream.position();
  set.opener.files["0.tar"] =
      TarBuilder().file("other.txt", std::string(100'000, 'x')).end().bytes();
  EXPECT_THROW(SampleStream(spec, position, set.opener, ledger), Error);
}

/// Where a stream stands after each of its samples.
std::vector<StreamPosition> positions_of(const Set& set, const StreamSpec& spec,
                                         FaultLedger& ledger) {
  SampleStream stream(spec, set.opener, ledger);
  std::vector<StreamPosition> positions;
  for (Sample sample; stream.next(sample);) positions.push_back(stream.position());
  return positions;
}

// What was read beyond damage, or before it, is read again as it was then.
TEST(SampleStream, ContinuesAtAnySampleWhateverIsDamaged) {
  Set set = make_set(3, 6);
  add_indexes(set);
  const std::string sound = set.opener.files["1.tar"];
  for (const bool indexed : {true, false}) {
    const StreamSpec spec{.shards = set.shards,
                          .shuffle = {.shards = true, .buffer_samples = 9, .seed = 6},
                          .indexed = indexed};
    for (std::size_t at = 3; at < sound.size(); at += 211) {
      std::string damaged = sound;
      damaged[at] ^= 1;
      set.opener.files["1.tar"] = damaged;
      FaultLedger ledger({.on_fault = OnFault::kSkip});
      const Strings whole = all_keys(set, spec, ledger);
      const auto positions = positions_of(set, spec, ledger);
      ASSERT_EQ(positions.size(), whole.size());
      for (std::size_t given = 1 + at % 4; given < whole.size(); given += 4) {
        FaultLedger again({.on_fault = OnFault::kSkip});
        SampleStream stream(spec, positions[given - 1], set.opener, again);
        EXPECT_EQ(drain(stream),
                  Strings(whole.begin() + static_cast<std::ptrdiff_t>(given), whole.end()))
            << at << " " << given << (indexed ? " indexed" : "");
        if (!indexed) continue;
        EXPECT_EQ(stream.position().lost.samples + whole.size(), set.num_samples) << at;
      }
    }
  }
}

/// A shard of which the buffer holds samples, for damage when the stream continues.
struct LaterDamage {
  Set set = make_set(2, 40);
  StreamSpec spec{
      .shards = set.shards, .shuffle = {.buffer_samples = 20, .seed = 2}, .indexed = true};
  StreamPosition position;
  std::vector<StreamPosition::SampleRef> held;  ///< of shard 1; there are others
  Strings rest;

  LaterDamage() {
    add_indexes(set);
    FaultLedger ledger;
    SampleStream stream(spec, set.opener, ledger);
    SampleBlock block;
    stream.next(block);
    position = stream.position();
    rest = drain(stream);
    std::ranges::copy_if(position.buffered, std::back_inserter(held),
                         [](const auto& ref) { return ref.shard == 1; });
    EXPECT_GT(held.size(), 10U);
  }
};

TEST(SampleStream, WhatABufferHeldAndIsGoneIsFollowedByThePolicy) {
  LaterDamage later;
  std::string& shard = later.set.opener.files["1.tar"];
  for (const std::size_t place : {3U, 5U}) shard[later.held[place].offset + 7] ^= 1;
  FaultLedger fail;
  EXPECT_THROW(SampleStream(later.spec, later.position, later.set.opener, fail), Error);
  FaultLedger skip({.on_fault = OnFault::kSkip});
  SampleStream stream(later.spec, later.position, later.set.opener, skip);
  const std::uint64_t lost = skip.skipped();
  EXPECT_GE(lost, 2U);
  EXPECT_EQ(stream.position().lost.samples, lost);
  EXPECT_EQ(stream.position().buffered.size() + lost, later.position.buffered.size());
  const StreamPosition behind = stream.position();
  const Strings keys = drain(stream);
  EXPECT_EQ(keys.size() + lost, later.rest.size());
  EXPECT_EQ(stream.position().samples_out + lost, later.set.num_samples);
  SampleStream once_more(later.spec, behind, later.set.opener, skip);
  EXPECT_EQ(drain(once_more), keys);
  FaultLedger budget({.on_fault = OnFault::kSkip, .max_faults = 1});
  EXPECT_THROW(SampleStream(later.spec, later.position, later.set.opener, budget), Error);
}

/// A set of one shard, whose samples a buffer holds, on a server that counts its openings.
class CountedOpener final : public io::Opener {
 public:
  MemoryOpener files;
  mutable std::map<std::string, int> opens;
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    ++opens[url];
    return files.open(url, options);
  }
};

std::string one_of_200(bool reversed) {
  TarBuilder tar;
  for (int n = 0; n < 200; ++n) {
    const std::string key = std::to_string(1000 + (reversed ? 199 - n : n));
    tar.file(key + ".txt", key + std::string(3000, 'x'));
  }
  return tar.end().bytes();
}

// As many requests as there are samples, for each sample of the buffer, would take hours.
TEST(SampleStream, ABufferOfAShardThatWasRewrittenCostsFewRequests) {
  const std::string url = "http://h/x.tar";
  CountedOpener opener;
  opener.files.files[url] = one_of_200(false);
  opener.files.files[index_url(url)] = detail::index_text(build_index(opener.files, url));
  const StreamSpec spec{.shards = std::make_shared<const Strings>(Strings{url}),
                        .shuffle = {.buffer_samples = 150, .seed = 2},
                        .indexed = true};
  FaultLedger ledger;
  SampleStream stream(spec, opener, ledger);
  SampleBlock block;
  stream.next(block);
  const StreamPosition position = stream.position();
  ASSERT_GT(position.buffered.size(), 100U);
  opener.files.files[url] = one_of_200(true);
  opener.opens.clear();
  EXPECT_THROW(SampleStream(spec, position, opener, ledger), Error);
  EXPECT_LE(opener.opens[url], 3) << "the first fault ends it";
  opener.opens.clear();
  FaultLedger skip({.on_fault = OnFault::kSkip});
  SampleStream skipping(spec, position, opener, skip);
  EXPECT_EQ(skip.skipped(), position.buffered.size());
  EXPECT_LE(opener.opens[url], 10);
}

TEST(SampleStream, AShardThatIsGoneCostsWhatTheBufferHeldOfIt) {
  LaterDamage later;
  later.set.opener.files.erase("1.tar");
  FaultLedger skip({.on_fault = OnFault::kSkip});
  SampleStream stream(later.spec, later.position, later.set.opener, skip);
  EXPECT_EQ(skip.skipped(), later.held.size());
  EXPECT_EQ(skip.entries().size(), 1U) << "one fault, not one a sample";
  const std::size_t given = drain(stream).size();
  EXPECT_EQ(given + stream.position().lost.samples, later.rest.size());
  FaultLedger stop({.on_fault = OnFault::kStop});
  SampleStream stopped(later.spec, later.position, later.set.opener, stop);
  EXPECT_EQ(drain(stopped).size() + later.held.size(), later.position.buffered.size());
  EXPECT_TRUE(stopped.position().lost.more);
}

TEST(SampleStream, BlocksHoldAtMost64Samples) {
  const Set set = make_set(4, 50);
  FaultLedger ledger;
  SampleStream stream({.shards = set.shards}, set.opener, ledger);
  std::uint64_t samples = 0;
  for (SampleBlock block; stream.next(block);) {
    EXPECT_LE(block.samples.size(), SampleBlock::kMaxSamples);
    samples += block.samples.size();
    EXPECT_EQ(stream.position().samples_out, samples);
  }
  EXPECT_EQ(samples, set.num_samples);
}

TEST(SampleStream, MaxSamplesCutsAndRepeats) {
  const Set set = make_set(2, 2);
  EXPECT_EQ(all_keys(set, {.shards = set.shards, .max_samples = 3}).size(), 3U);
  const Strings more = all_keys(set, {.shards = set.shards, .max_samples = 12});
  ASSERT_EQ(more.size(), 12U);
  EXPECT_EQ(more[5], more[0]);
}

TEST(SampleStream, NoSampleIsRepeatedBeforeAllWereReturned) {
  const Set set = make_set(4, 5);  // 26 samples
  for (const Order order : {Order::kMillrace, Order::kWebDataset}) {
    for (const std::int64_t buffer : {0, 7, 20, 1000}) {
      const StreamSpec spec{
          .shards = set.shards,
          .shuffle = {.shards = true, .buffer_samples = buffer, .seed = 3, .order = order},
          .max_samples = 70};
      const Strings keys = all_keys(set, spec);
      ASSERT_EQ(keys.size(), 70U);
      for (std::size_t pass = 0; pass < 2; ++pass) {
        const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(pass * set.num_samples);
        const std::set<std::string> once(begin,
                                         begin + static_cast<std::ptrdiff_t>(set.num_samples));
        EXPECT_EQ(once.size(), set.num_samples) << "pass " << pass << ", buffer " << buffer;
      }
    }
  }
}

// wds.shuffle(5, initial=2, seed=0) and with_epoch(45) over 20 samples, run with WebDataset 1.0.2.
TEST(SampleStream, AnEpochOfSeveralPassesIsWebDatasets) {
  Set set;
  TarBuilder tar;
  for (int i = 0; i < 20; ++i) tar.file(std::to_string(i) + ".txt", "x");
  set.opener.files["a.tar"] = tar.end().bytes();
  set.shards = std::make_shared<const Strings>(Strings{"a.tar"});
  const Strings keys = all_keys(
      set, {.shards = set.shards,
            .shuffle = {.buffer_samples = 5, .initial_samples = 2, .order = Order::kWebDataset},
            .max_samples = 45});
  std::string joined;
  for (const std::string& key : keys) joined += key + " ";
  EXPECT_EQ(joined,
            "1 2 0 4 8 6 9 7 10 11 14 3 16 15 13 17 5 18 19 12 "
            "1 2 0 4 8 6 9 7 10 11 14 3 16 15 13 17 5 18 19 12 1 2 0 4 8 ");
}

TEST(SampleStream, ContinuesExactlyInAnyPass) {
  const Set set = make_set(20, 3);  // 250 samples
  for (const Order order : {Order::kMillrace, Order::kWebDataset}) {
    for (const std::int64_t buffer : {0, 30, 5000}) {
      expect_continues_anywhere(
          set, {.shards = set.shards,
                .shuffle = {.shards = true, .buffer_samples = buffer, .seed = 8, .order = order},
                .max_samples = 560});
    }
  }
}

TEST(SampleStream, ResampledStreamsDrawWithReplacement) {
  const Set set = make_set(5, 3);
  const StreamSpec spec{
      .shards = set.shards, .shuffle = {.seed = 2}, .resampled = true, .max_samples = 200};
  const Strings keys = all_keys(set, spec);
  EXPECT_EQ(keys.size(), 200U);
  EXPECT_EQ(all_keys(set, spec), keys);
}

TEST(SampleStream, SkipsWhatIsDamagedAndKeepsTheAccount) {
  Set set = make_set(3, 4);
  set.opener.files["1.tar"].resize(6 * 512);  // one and a half samples
  const StreamSpec spec{.shards = set.shards};
  FaultLedger fail;
  EXPECT_THROW(all_keys(set, spec, fail), Error);
  FaultLedger skip({.on_fault = OnFault::kSkip});
  const Strings keys = all_keys(set, spec, skip);
  EXPECT_EQ(keys.size(), 4U + 1U + 6U);
  ASSERT_EQ(skip.entries().size(), 1U);
  EXPECT_EQ(skip.entries()[0].where.url, "1.tar");
  EXPECT_EQ(skip.entries()[0].where.key, "s1-1");
  EXPECT_EQ(skip.emitted() + skip.skipped(), skip.read());
  FaultLedger stop({.on_fault = OnFault::kStop});
  EXPECT_EQ(all_keys(set, spec, stop).size(), 4U + 1U);
}

TEST(SampleStream, AMissingShardIsAFault) {
  Set set = make_set(3, 4);
  set.opener.files.erase("1.tar");
  FaultLedger skip({.on_fault = OnFault::kSkip});
  EXPECT_EQ(all_keys(set, {.shards = set.shards}, skip).size(), 4U + 6U);
  FaultLedger budget({.on_fault = OnFault::kSkip, .max_faults = 0});
  EXPECT_THROW(all_keys(set, {.shards = set.shards}, budget), Error);
}

TEST(SampleStream, StopsWhenAsked) {
  const Set set = make_set(3);
  std::stop_source stop;
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  SampleStream stream({.shards = set.shards}, set.opener, ledger, stop.get_token());
  stop.request_stop();
  SampleBlock block;
  try {
    stream.next(block);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

TEST(SampleStream, StopsWhileItHandsOutItsBuffer) {
  const Set set = make_set(3, 200);
  std::stop_source stop;
  FaultLedger ledger{FaultPolicy{}};
  SampleStream stream({.shards = set.shards, .shuffle = {.buffer_samples = 10'000}}, set.opener,
                      ledger, stop.get_token());
  SampleBlock block;
  ASSERT_TRUE(stream.next(block)) << "all is read now";
  stop.request_stop();
  EXPECT_THROW(stream.next(block), Error);
}

TEST(Reshard, StopsBetweenTwoSamples) {
  const Set set = make_set(3, 200);
  const TempDir dir;
  std::stop_source stop;
  std::uint64_t most = 0;
  FaultLedger ledger{FaultPolicy{}};
  const ReshardOptions options{.shards = *set.shards,
                               .writer = {.pattern = dir / "new-%06d.tar"},
                               .shuffle_seed = 1,
                               .on_sample = [&](std::uint64_t written) {
                                 most = written;
                                 if (written == 7) stop.request_stop();
                               }};
  EXPECT_THROW(reshard(options, set.opener, ledger, stop.get_token()), Error);
  EXPECT_EQ(most, 7U);
}

}  // namespace
}  // namespace millrace::wds
