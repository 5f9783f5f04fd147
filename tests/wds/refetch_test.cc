// Data damaged on the network, as detected by an index, is fetched once more before it is a fault,
// and counted.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "io/base/error.h"
#include "tests/support/gzipped.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/index_text.h"
#include "wds/sample_stream.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using testing::gzipped;
using testing::MemoryOpener;
using testing::TarBuilder;
using Strings = std::vector<std::string>;

constexpr const char* kUrl = "http://h/x.tar";
constexpr const char* kIndexUrl = "http://h/x.tar.index.json";

/// The first `bad` opens of an object return the damaged one.
class FlippingOpener final : public io::Opener {
 public:
  void add(const std::string& url, std::string good, std::string damaged, int bad) {
    good_.files[url] = std::move(good);
    damaged_.files[url] = std::move(damaged);
    bad_[url] = bad;
  }
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    const bool damaged = opens_[url]++ < bad_.at(url);
    return (damaged ? damaged_ : good_).open(url, options);
  }
  int opens(const std::string& url) const { return opens_[url]; }

 private:
  MemoryOpener good_;
  MemoryOpener damaged_;
  std::map<std::string, int> bad_;
  mutable std::map<std::string, int> opens_;
};

FlippingOpener one_object(const std::string& url, const std::string& good,
                          const std::string& damaged, int bad) {
  FlippingOpener opener;
  opener.add(url, good, damaged, bad);
  return opener;
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

std::string four_payloads(std::size_t payload = 9) {
  TarBuilder tar;
  std::minstd_rand random(7);
  for (const char* key : {"a", "b", "c", "d"}) {
    std::string data(payload, '\0');
    for (char& byte : data) byte = static_cast<char>(random() >> 8);
    tar.file(std::string(key) + ".cls", "1")
        .pax_file(std::string(key) + ".jpg", data, {{"mtime", "1.5"}});
  }
  return tar.end().bytes();
}

std::shared_ptr<const ShardIndex> index_of(const std::string& shard) {
  MemoryOpener opener;
  opener.files["x.tar"] = shard;
  return std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
}

/// The keys, then the number of samples fetched twice.
Strings read_again(const FlippingOpener& opener, const std::string& url,
                   const std::shared_ptr<const ShardIndex>& index) {
  ShardReader reader(opener, url, {.index = index});
  Strings seen;
  for (Sample sample; reader.next(sample);) seen.push_back(sample.key);
  seen.push_back(std::to_string(reader.refetched()));
  return seen;
}

TEST(Refetch, ADamagedSampleIsAskedForOnceMore) {
  const std::string good = four_payloads();
  const auto index = index_of(good);
  const IndexedSample& second = index->samples[1];
  for (const std::uint64_t place : {second.offset + 10, second.members[1].offset}) {
    const std::string damaged = flipped(good, place);
    const FlippingOpener once = one_object(kUrl, good, damaged, 1);
    EXPECT_EQ(read_again(once, kUrl, index), (Strings{"a", "b", "c", "d", "1"})) << place;
    EXPECT_EQ(once.opens(kUrl), 2);
    const FlippingOpener twice = one_object(kUrl, good, damaged, 2);
    EXPECT_THROW(read_again(twice, kUrl, index), Error) << place;
    EXPECT_EQ(twice.opens(kUrl), 2);
    const FlippingOpener on_disk = one_object("x.tar", good, damaged, 1);
    EXPECT_THROW(read_again(on_disk, "x.tar", index), Error) << "a disk would give the same again";
    EXPECT_EQ(on_disk.opens("x.tar"), 1);
  }
}

TEST(Refetch, APackedShardIsReadAgainFromItsBeginning) {
  const std::string good = gzipped(four_payloads(3000));
  const auto index = index_of(good);
  for (std::size_t place = 100; place + 400 < good.size(); place += 97) {
    const std::string damaged = flipped(good, place);
    const FlippingOpener once = one_object(kUrl, good, damaged, 1);
    EXPECT_EQ(read_again(once, kUrl, index), (Strings{"a", "b", "c", "d", "1"})) << place;
    const FlippingOpener always = one_object(kUrl, good, damaged, 100);
    EXPECT_THROW(read_again(always, kUrl, index), Error) << place;
    EXPECT_LE(always.opens(kUrl), 3) << "once where its sample would lie, once from the beginning";
  }
}

TEST(Refetch, ADamagedPackedShardIsReadAgainOnlyOnce) {
  std::string tar = four_payloads(3000);
  const auto index = index_of(gzipped(tar));
  for (const IndexedSample& sample : index->samples)
    tar = flipped(std::move(tar), sample.members[1].offset);
  const std::string damaged = gzipped(tar);
  const FlippingOpener opener = one_object(kUrl, damaged, damaged, 0);
  ShardReader reader(opener, kUrl, {.index = index});
  int faults = 0;
  for (Sample sample;;) {
    try {
      if (!reader.next(sample)) break;
    } catch (const Error&) {
      ++faults;
      if (!reader.can_continue()) break;
    }
  }
  EXPECT_EQ(faults, 4) << "each sample's own, and the bytes of the whole differ by no sample more";
  EXPECT_EQ(reader.refetched(), 0U);
  EXPECT_EQ(opener.opens(kUrl), 2) << "the tar continues after the damage";
}

/// 40 samples; `payload` tells the size of each.
std::string rewritten(const std::function<int(int)>& payload, bool reversed) {
  TarBuilder tar;
  for (int n = 0; n < 40; ++n) {
    const int i = reversed ? 39 - n : n;
    tar.file("k" + std::to_string(100 + i) + ".txt",
             std::string(static_cast<std::size_t>(payload(i)), static_cast<char>('a' + i % 26)));
  }
  return tar.end().bytes();
}

/// Each of one sample.
std::size_t num_faults(ShardReader& reader) {
  std::size_t faults = 0;
  for (Sample sample;;) {
    try {
      if (!reader.next(sample)) return faults;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      ++faults;
      if (!reader.can_continue()) return faults;
    }
  }
}

TEST(Refetch, AShardThatWasRewrittenBehindItsIndexCostsFewRequests) {
  const auto of_one_size = [](int) { return 700; };
  const auto of_two_sizes = [](int i) { return i < 13 ? 40'000 : 700; };
  for (const std::function<int(int)>& payload :
       {std::function<int(int)>(of_one_size), std::function<int(int)>(of_two_sizes)}) {
    const std::string before = rewritten(payload, false);
    const std::string now = rewritten(payload, true);
    ASSERT_EQ(now.size(), before.size());
    const FlippingOpener opener = one_object(kUrl, now, now, 0);
    ShardReader reader(opener, kUrl, {.index = index_of(before)});
    EXPECT_GE(num_faults(reader), 38U) << "a sample in the middle may be where it was";
    EXPECT_EQ(reader.refetched(), 0U);
    EXPECT_LE(opener.opens(kUrl), 10);
  }
}

TEST(Refetch, BehindManyDamagedSamplesOneIsFetchedOnceMoreAgain) {
  const auto of_one_size = [](int) { return 700; };
  const std::string good = rewritten(of_one_size, false);
  const auto index = index_of(good);
  std::string stored = good;
  for (std::size_t i = 3; i < 20; ++i)
    stored = flipped(stored, index->samples[i].members[0].offset);
  const std::string on_the_way = flipped(stored, index->samples[30].members[0].offset);
  for (int bad = 1; bad < 6; ++bad) {
    const FlippingOpener opener = one_object(kUrl, stored, on_the_way, bad);
    ShardReader reader(opener, kUrl, {.index = index});
    EXPECT_EQ(num_faults(reader), 17U) << bad;
    EXPECT_LE(opener.opens(kUrl), 8);
  }
}

TEST(Refetch, ADamagedIndexIsAskedForOnceMore) {
  const std::string shard = four_payloads();
  const std::string good = detail::index_text(*index_of(shard));
  const std::string damaged = flipped(good, 0);
  const auto usable = [&](const FlippingOpener& opener, FaultLedger& ledger) {
    return usable_index(opener, kUrl, ledger) != nullptr;
  };
  FaultLedger ledger;
  const FlippingOpener once = one_object(kIndexUrl, good, damaged, 1);
  EXPECT_TRUE(usable(once, ledger));
  EXPECT_EQ(ledger.refetched(), 1U);
  EXPECT_EQ(once.opens(kIndexUrl), 2);
  const FlippingOpener twice = one_object(kIndexUrl, good, damaged, 2);
  EXPECT_FALSE(usable(twice, ledger));
  EXPECT_EQ(ledger.refetched(), 1U);
  EXPECT_EQ(ledger.warnings(), 1U) << "the index that is not used";
  const FlippingOpener on_disk = one_object("x.tar.index.json", good, damaged, 1);
  EXPECT_EQ(usable_index(on_disk, "x.tar", ledger), nullptr);
  EXPECT_EQ(on_disk.opens("x.tar.index.json"), 1);
  const FlippingOpener flipped = one_object(kIndexUrl, good, std::string(2000, 'x'), 1);
  EXPECT_EQ(read_index_head(flipped, kIndexUrl)->count, 4U);
}

TEST(Refetch, AStreamsLedgerCountsItAndSaysItOnce) {
  const std::string shard = four_payloads();
  const auto index = index_of(shard);
  FlippingOpener opener;
  opener.add(kUrl, shard, flipped(shard, index->samples[2].members[1].offset), 1);
  opener.add(kIndexUrl, detail::index_text(*index), "x", 1);
  const testing::TempDir dir;
  FaultLedger ledger({.on_fault = OnFault::kSkip}, Log::to_file(dir / "log"));
  SampleStream stream({.shards = std::make_shared<const Strings>(Strings{kUrl}), .indexed = true},
                      opener, ledger);
  std::size_t samples = 0;
  for (SampleBlock block; stream.next(block);) samples += block.samples.size();
  EXPECT_EQ(samples, 4U);
  EXPECT_EQ(ledger.skipped(), 0U);
  EXPECT_EQ(ledger.refetched(), 2U) << "the index, and a sample";
  const std::string log = testing::read_file(dir / "log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "said once: " << log;
}

}  // namespace
}  // namespace millrace::wds
