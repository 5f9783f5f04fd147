#include "wds/sample_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/support/gzipped.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/permutation.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

TEST(Permutation, TakesEveryNumberOnceAndDependsOnItsKey) {
  for (const std::uint64_t size : {1U, 2U, 3U, 5U, 64U, 65U, 1000U, 4097U}) {
    std::set<std::uint64_t> seen;
    const Permutation order(size, {.seed = 7, .epoch = 2});
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(order.at(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
  const auto first = [](const PermutationKey& key) { return Permutation(1U << 30U, key).at(5); };
  const std::uint64_t one = first({.seed = 7, .epoch = 2});
  EXPECT_EQ(first({.seed = 7, .epoch = 2}), one);
  EXPECT_NE(first({.seed = 8, .epoch = 2}), one);
  EXPECT_NE(first({.seed = 7, .epoch = 3}), one);
  EXPECT_NE(first({.seed = 7, .epoch = 2, .pass = 1}), one);
}

/// Shards of 5, 6, ... samples, and keys in the order of the list; every other one has an index.
struct AccessSet {
  explicit AccessSet(int num_shards) {
    const TempDir dir;
    for (int s = 0; s < num_shards; ++s) {
      TarBuilder tar;
      for (int i = 0; i < 5 + s; ++i) {
        keys.push_back(std::to_string(s) + "-" + std::to_string(i));
        tar.file(keys.back() + ".bin", std::string(static_cast<std::size_t>(i) * 700, 'x'))
            .pax_file(keys.back() + ".cls", "1", {{"comment", "c"}});
      }
      shards.push_back(std::to_string(s) + ".tar");
      opener.files[shards.back()] = tar.end().bytes();
      if (s % 2 == 0) continue;
      write_index(build_index(opener, shards.back()), dir / "i", io::Replace::kAtomically);
      opener.files[index_url(shards.back())] = testing::read_file(dir / "i");
    }
  }
  StreamSpec spec() const {
    return {.shards = std::make_shared<const Strings>(shards),
            .shuffle = {.seed = 5, .order = Order::kPermutation},
            .found = {.contents = find_contents(opener, shards)}};
  }
  MemoryOpener opener;
  Strings shards;
  Strings keys;
};

Strings drain_places(SampleStream& stream) {
  Strings keys;
  for (SampleBlock block; stream.next(block);)
    for (const Sample& sample : block.samples) keys.push_back(sample.key);
  return keys;
}

TEST(SampleAccess, FindsEverySampleByItsNumberAndNeighboursTogether) {
  const AccessSet set(6);
  const SampleAccess access(set.opener, find_contents(set.opener, set.shards));
  ASSERT_EQ(access.size(), set.keys.size());
  for (std::size_t i = 0; i < set.keys.size(); ++i) {
    const Sample sample = access.sample(i);
    EXPECT_EQ(sample.key, set.keys[i]);
    EXPECT_EQ(sample.fields.size(), 2U);
  }
  std::vector<std::uint64_t> numbers(set.keys.size());
  std::iota(numbers.rbegin(), numbers.rend(), std::uint64_t{0});
  Strings found(numbers.size());
  access.samples(numbers, [&](const SampleAccess::Result& result) {
    ASSERT_EQ(result.fault, nullptr);
    found[result.place] = result.sample.key;
  });
  EXPECT_EQ(found, Strings(set.keys.rbegin(), set.keys.rend()));
}

TEST(SampleAccess, RefusesShardsInWhichNothingCanBeSought) {
  AccessSet set(3);
  const auto refusal = [&](const ContentsOptions& options) {
    try {
      find_contents(set.opener, set.shards, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal({.scanned = false}), ::testing::HasSubstr("no index"));
  const std::string tar = set.opener.files["2.tar"];
  set.opener.files["2.tar"] = testing::gzipped(tar);
  EXPECT_THAT(refusal({}), ::testing::HasSubstr("unpack it"));
  set.opener.files["2.tar"] = tar.substr(0, 3000);
  EXPECT_THAT(refusal({}), ::testing::HasSubstr("damaged"));
  set.shards.emplace_back("-");
  EXPECT_THAT(refusal({}), ::testing::HasSubstr("only once"));
}

// An opener of files: only what is on disk tells its size before it is read.
TEST(SampleAccess, AShardThatOutgrewItsIndexIsAFault) {
  const TempDir dir;
  const io::UrlOpener opener;
  const Strings shards = {dir / "a.tar"};
  testing::write_file(shards[0], TarBuilder().file("a.txt", "1").end().bytes());
  write_index(build_index(opener, shards[0]), index_url(shards[0]));
  EXPECT_EQ(find_contents(opener, shards)->count, 1U);
  testing::write_file(shards[0],
                      TarBuilder().file("a.txt", "1").file("b.txt", "2").end(20'480).bytes());
  const auto code = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kCancelled;
  };
  EXPECT_EQ(code([&] { find_contents(opener, shards); }), ErrorCode::kCorrupt);
  const std::vector<Strings> joined = {shards};
  const Joins joins(Strings{"own.tar"}, joined);
  EXPECT_EQ(code([&] { joins.contents(opener, shards[0], {}, nullptr); }), ErrorCode::kCorrupt);
}

TEST(SampleAccess, AShardThatIsShorterThanItsIndexIsAFaultOrLeftToWhoeverReadsIt) {
  const TempDir dir;
  const io::UrlOpener opener;
  const Strings shards = {dir / "a.tar"};
  const std::string tar = TarBuilder().file("a.txt", "1").file("b.txt", "2").end().bytes();
  testing::write_file(shards[0], tar);
  write_index(build_index(opener, shards[0]), index_url(shards[0]));
  testing::write_file(shards[0], tar.substr(0, 1536));
  const auto find = [&](OnFault on_fault) {
    FaultLedger ledger({.on_fault = on_fault});
    return find_contents(opener, shards, {.ledger = &ledger})->count;
  };
  try {
    find(OnFault::kFail);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.where().url, shards[0]);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("a.tar.index.json"));
  }
  EXPECT_EQ(find(OnFault::kSkip), 2U) << "of which one is lost when it is read";
}

TEST(SampleAccess, ADamagedIndexIsSaidOrAFaultAndOneThatCannotBeReachedIsAFault) {
  AccessSet set(2);
  std::string& index = set.opener.files[index_url("1.tar")];
  index[index.size() / 2] ^= 1;
  FaultLedger ledger;
  const auto contents = find_contents(set.opener, set.shards, {.ledger = &ledger});
  EXPECT_EQ(contents->shards[1].index, nullptr);
  EXPECT_EQ(contents->count, set.keys.size());
  EXPECT_EQ(ledger.warnings(), 1U);
  const auto code = [&](const io::Opener& opener, FaultLedger* by) {
    try {
      find_contents(opener, set.shards, {.ledger = by});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kCancelled;
  };
  FaultLedger requires_index({.require_index = true});
  set.shards.erase(set.shards.begin());  // which has none
  EXPECT_EQ(code(set.opener, &requires_index), ErrorCode::kCorrupt);
  EXPECT_EQ(code(set.opener, nullptr), ErrorCode::kCorrupt);

  class Unreachable final : public io::Opener {
   public:
    std::unique_ptr<io::ByteSource> open(const std::string& url,
                                         const io::OpenOptions&) const override {
      throw Error(ErrorCode::kIo, "HTTP status 503", {.url = url});
    }
  };
  EXPECT_EQ(code(Unreachable(), &ledger), ErrorCode::kIo);
}

TEST(PermutationOrder, HasTheSameSlotsForEveryNumberOfStreams) {
  const AccessSet set(6);
  const auto slots = [&](int streams) {
    StreamSpec spec = set.spec();
    spec.num_streams = streams;
    std::vector<Strings> shares;
    for (spec.stream = 0; spec.stream < streams; ++spec.stream) {
      FaultLedger ledger;
      SampleStream stream(spec, set.opener, ledger);
      shares.push_back(drain_places(stream));
    }
    Strings all;
    for (std::size_t slot = 0; slot < set.keys.size(); ++slot)
      all.push_back(shares[slot % shares.size()].at(slot / shares.size()));
    return all;
  };
  const Strings one = slots(1);
  EXPECT_EQ(slots(2), one);
  EXPECT_EQ(slots(7), one);
  EXPECT_NE(one, set.keys);
  EXPECT_EQ(std::multiset<std::string>(one.begin(), one.end()),
            std::multiset<std::string>(set.keys.begin(), set.keys.end()));
}

TEST(PermutationOrder, ContinuesExactlyAtAnyPositionAndInAnyPass) {
  const AccessSet set(12);  // 126 samples
  for (const std::uint64_t samples : {0U, 200U}) {
    StreamSpec spec = set.spec();
    spec.num_streams = 2;
    spec.max_samples = samples;
    FaultLedger ledger;
    SampleStream first(spec, set.opener, ledger);
    const Strings whole = drain_places(first);
    ASSERT_EQ(whole.size(), samples == 0 ? 63U : 200U);
    EXPECT_EQ(std::set<std::string>(whole.begin(), whole.begin() + 63).size(), 63U);
    SampleStream stream(spec, set.opener, ledger);
    std::size_t given = 0;
    for (SampleBlock block; stream.next(block);) {
      for (std::size_t i = 0; i < block.samples.size(); ++i) {
        StreamPosition position;
        block.trail->advance(position, i + 1);
        SampleStream again(spec, position, set.opener, ledger);
        ASSERT_EQ(drain_places(again),
                  Strings(whole.begin() + static_cast<std::ptrdiff_t>(++given), whole.end()));
      }
      EXPECT_EQ(stream.position().samples_out, given);
    }
  }
}

TEST(PermutationOrder, PassesEndAnEpochAndEachIsDrawnAnew) {
  const AccessSet set(6);  // 45 samples
  StreamSpec spec = set.spec();
  const auto keys = [&](std::uint32_t passes, std::uint64_t samples) {
    spec.passes = passes;
    spec.max_samples = samples;
    FaultLedger ledger;
    SampleStream stream(spec, set.opener, ledger);
    return drain_places(stream);
  };
  const Strings two = keys(2, 0);
  ASSERT_EQ(two.size(), 90U);
  const Strings first(two.begin(), two.begin() + 45);
  const Strings second(two.begin() + 45, two.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<std::string>(second.begin(), second.end()).size(), 45U);
  EXPECT_EQ(keys(0, 0), first);
  EXPECT_EQ(keys(1, 60), first) << "the pass ends before the samples";
  EXPECT_EQ(keys(2, 60), Strings(two.begin(), two.begin() + 60));
}

TEST(PermutationOrder, DamageCostsItsSampleAndIsFoundWhereAnIndexHasTheChecksum) {
  AccessSet set(2);
  const StreamSpec spec = set.spec();
  const auto at = set.opener.files["1.tar"].find("xxxx");
  set.opener.files["1.tar"][at] = 'y';
  FaultLedger fail;
  SampleStream failing(spec, set.opener, fail);
  EXPECT_THROW(drain_places(failing), Error);
  FaultLedger skip({.on_fault = OnFault::kSkip});
  SampleStream stream(spec, set.opener, skip);
  EXPECT_EQ(drain_places(stream).size(), set.keys.size() - 1);
  ASSERT_EQ(skip.entries().size(), 1U);
  EXPECT_EQ(skip.entries()[0].where.key, "1-1");
  EXPECT_EQ(skip.skipped(), 1U);
}

}  // namespace
}  // namespace millrace::wds
