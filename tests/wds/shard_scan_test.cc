#include "wds/shard_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "io/base/file_lock.h"
#include "tests/support/gzipped.h"
#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/scan_cache.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNull;
using testing::MemoryOpener;
using testing::Nginx;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

/// A random valid tar: members of any size and spelling, folders, ignored names, odd keys.
std::string random_tar(std::mt19937& random, int samples) {
  const auto below = [&](unsigned bound) { return random() % bound; };
  TarBuilder tar;
  for (int i = 0; i < samples; ++i) {
    if (below(5) == 0) tar.header({.name = "d/", .type = '5'});
    if (below(7) == 0) tar.file("__meta__", "ignored");
    const std::string key = "d/k" + std::to_string(i);
    for (unsigned f = 0; f < 1 + below(3); ++f) {
      const std::string name = key + ".f" + std::to_string(f);
      const std::string data(below(3) == 0 ? below(70'000) : below(600), 'x');
      if (below(6) == 0)
        tar.pax_file(name, data, {{"comment", std::string(below(2000), 'c')}});
      else if (below(6) == 0)
        tar.gnu_file(name, data);
      else
        tar.file(name, data);
    }
  }
  return tar.end().bytes();
}

ShardIndex without_checksums(ShardIndex index) {
  for (IndexedSample& sample : index.samples)
    for (IndexedMember& member : sample.members) member.crc32 = member.header_crc32 = 0;
  return index;
}

void expect_same(const ShardIndex& scanned, const ShardIndex& indexed) {
  EXPECT_EQ(scanned.end, indexed.end);
  ASSERT_EQ(scanned.samples.size(), indexed.samples.size());
  for (std::size_t i = 0; i < scanned.samples.size(); ++i) {
    const IndexedSample& a = scanned.samples[i];
    const IndexedSample& b = indexed.samples[i];
    EXPECT_EQ(std::tie(a.key, a.offset), std::tie(b.key, b.offset));
    ASSERT_EQ(a.members.size(), b.members.size());
    for (std::size_t m = 0; m < a.members.size(); ++m) {
      const IndexedMember& x = a.members[m];
      const IndexedMember& y = b.members[m];
      EXPECT_EQ(std::tie(x.suffix, x.offset, x.size, x.crc32, x.header_crc32),
                std::tie(y.suffix, y.offset, y.size, y.crc32, y.header_crc32));
    }
  }
}

TEST(ShardScan, FindsWhatAnIndexHoldsButTheChecksums) {
  const TempDir dir;
  std::mt19937 random(12);
  const io::UrlOpener opener;
  for (int round = 0; round < 40; ++round) {
    const std::string tar = random_tar(random, round % 13);
    for (const bool packed : {false, true}) {
      const std::string path = dir / "a.tar";
      testing::write_file(path, packed ? testing::gzipped(tar) : tar);
      const ShardIndex index = without_checksums(build_index(opener, path));
      expect_same(scan_contents(opener, path), index);
      const ShardScan scan = scan_shard(opener, path);
      EXPECT_FALSE(scan.damage.has_value());
      EXPECT_EQ(scan.compressed, packed);
      ASSERT_EQ(scan.count, index.samples.size());
      for (std::size_t i = 0; i < scan.count; ++i) {
        EXPECT_EQ(scan.offset_of(i), index.samples[i].offset);
        EXPECT_EQ(scan.sample_at(scan.offset_of(i)), i);
      }
      EXPECT_EQ(scan.end, index.end);
    }
  }
}

/// Whatever is wrong with a shard, a scan counts what a reader that skips gives and loses.
TEST(ShardScan, CountsDamageAsAReaderMeetsIt) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    MemoryOpener opener;
    std::string tar = random_tar(random, 8);
    if (round % 3 == 0)
      tar.resize(random() % tar.size());
    else
      for (int flips = 0; flips < 1 + round % 4; ++flips)
        tar[random() % tar.size()] ^= static_cast<char>(1 + random() % 255);
    opener.files["a.tar"] = tar;
    const ShardScan scan = scan_shard(opener, "a.tar", {.fail = false});
    FaultLedger ledger({.on_fault = OnFault::kSkip});
    const auto shards = std::make_shared<const Strings>(Strings{"a.tar"});
    const StreamSpec spec{.shards = shards};
    SampleStream stream(spec, opener, ledger);
    std::uint64_t read = 0;
    for (SampleBlock block; stream.next(block);) read += block.samples.size();
    // A reader also meets payloads that end early; a scan sees those where it cannot skip further.
    EXPECT_EQ(scan.count, read + ledger.skipped()) << round;
    EXPECT_EQ(scan.damage.has_value(), ledger.skipped() > 0) << round;
    if (scan.damage) {
      EXPECT_TRUE(scan.blocks.empty());
    }
  }
}

TEST(ShardScan, DoesNotReadWhatItCanSeekOver) {
  const TempDir dir;
  TarBuilder tar;
  for (int i = 0; i < 50; ++i)
    tar.file(std::to_string(i) + ".jpg", std::string(110'000, 'j'))
        .file(std::to_string(i) + ".cls", "1");
  testing::write_file(dir / "a.tar", tar.end().bytes());
  std::vector<std::string> lines;
  const Log log = Log::to_file(dir / "log");
  const Strings shards{dir / "a.tar"};
  const auto scans = scan_shards(io::UrlOpener(), shards, {true}, {.log = log});
  ASSERT_THAT(scans, ::testing::Pointee(::testing::SizeIs(1)));
  EXPECT_EQ(scans->at(0)->count, 50U);
  EXPECT_THAT(
      testing::read_file(dir / "log"),
      HasSubstr("scanned the headers of 1 shard without an index: 50 samples, 0.8 MB read"));
}

TEST(ShardScan, OmitsUnneededShardsAndThoseThatCanBeReadOnlyOnce) {
  MemoryOpener opener;
  opener.files["a.tar"] = TarBuilder().file("a.x", "1").end().bytes();
  const auto some = scan_shards(opener, Strings{"none.tar", "a.tar"}, {false, true});
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(some->at(0), nullptr);
  EXPECT_EQ(some->at(1)->count, 1U);
  EXPECT_THAT(scan_shards(opener, Strings{"a.tar", "-"}, {true, true}), IsNull());
}

TEST(ShardScan, AMissingShardIsOneSampleAndAFailingDiskEndsTheScan) {
  MemoryOpener opener;
  const ShardScan missing = scan_shard(opener, "none.tar");
  EXPECT_EQ(missing.count, 1U);
  EXPECT_EQ(missing.damage->code(), ErrorCode::kNotFound);
  const TempDir dir;  // a folder cannot be read
  EXPECT_THROW(scan_shard(io::UrlOpener(), dir.path().string()), Error);
  EXPECT_EQ(scan_shard(io::UrlOpener(), dir.path().string(), {.fail = false}).count, 1U);
}

class ScanCache : public ::testing::Test {
 protected:
  ScanCache() { write_shard(60, 'x'); }
  void write_shard(int samples, char fill) const {
    TarBuilder tar;
    for (int i = 0; i < samples; ++i)
      tar.file(std::to_string(i) + ".bin", std::string(100'000, fill));
    tar.file("z.big", std::string(6 << 20, 'z'));
    testing::write_file(dir_ / "a.tar", testing::gzipped(tar.end().bytes()));
  }
  ShardScan scan() const { return scan_shard(io::UrlOpener(), dir_ / "a.tar", options_); }
  std::string path() const { return detail::scan_path(dir_ / "a.tar", options_); }

  TempDir dir_;
  ScanOptions options_{.cache = dir_ / "cache/scans"};
};

TEST_F(ScanCache, KeepsWhatTookLongAndDropsWhatIsDamaged) {
  // gzip packs the shard to little: what counts is what was read.
  detail::write_scan(path(), "a.tar", {{1, "v"}, {.count = 2, .blocks = {0, 7}, .end = 20 * 512}});
  const auto kept = detail::read_scan(path());
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->scan.blocks, (std::vector<std::uint32_t>{0, 7}));
  EXPECT_EQ(kept->scan.end, 20U * 512);
  const std::string text = testing::read_file(path());
  for (std::size_t at = 0; at < text.size(); at += 3) {
    std::string damaged = text;
    damaged[at] ^= 1;
    testing::write_file(path(), damaged);
    if (const auto read = detail::read_scan(path())) {
      EXPECT_EQ(read->scan.blocks, kept->scan.blocks) << damaged;
    } else {
      EXPECT_FALSE(std::filesystem::exists(path()));
    }
  }
  testing::write_file(path(), text.substr(0, text.size() / 2));
  EXPECT_EQ(scan().count, 61U) << "a damaged entry is no fault";
}

TEST_F(ScanCache, IsValidForTheSameSizeAndTimeOnly) {
  const std::string shard = dir_ / "a.tar";
  const auto source = io::UrlOpener().open(shard);
  detail::write_scan(
      path(), shard,
      {{*source->size(), source->version()}, {.count = 3, .blocks = {0, 1, 2}, .end = 5 * 512}});
  EXPECT_EQ(scan().count, 3U) << "the cache is trusted";
  std::filesystem::last_write_time(
      shard, std::filesystem::last_write_time(shard) + std::chrono::seconds(2));
  EXPECT_EQ(scan().count, 61U);
  options_.lenient = true;
  EXPECT_FALSE(std::filesystem::exists(path())) << "read otherwise, counted otherwise";
}

TEST_F(ScanCache, OneThatCannotBeWrittenIsNotAFault) {
  testing::write_file(dir_ / "file", "not a folder");
  options_.cache = dir_ / "file/scans";
  EXPECT_EQ(scan().count, 61U);
}

TEST_F(ScanCache, ProcessesThatScanAtOnceDivideTheShards) {
  TarBuilder tar;
  for (int i = 0; i < 500; ++i) tar.file(std::to_string(i) + ".bin", std::string(10'000, 'x'));
  const std::string bytes = tar.end().bytes();
  const Strings shards{dir_ / "b.tar", dir_ / "c.tar"};
  for (const std::string& shard : shards) testing::write_file(shard, bytes);
  const auto kept_at = [&](std::size_t i) { return detail::scan_path(shards.at(i), options_); };
  std::filesystem::create_directories(options_.cache);
  auto other_process = FileLock::try_take(kept_at(0) + ".lock");
  std::shared_ptr<const ShardScans> scans;
  std::jthread scanning([&] {
    scans = scan_shards(io::UrlOpener(), shards, {true, true}, options_);
  });
  for (int i = 0; i < 1000 && !std::filesystem::exists(kept_at(1)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::exists(kept_at(1))) << "nobody scans this one";
  const auto source = io::UrlOpener().open(shards[0]);
  detail::write_scan(
      kept_at(0), shards[0],
      {{*source->size(), source->version()}, {.count = 3, .blocks = {0, 1, 2}, .end = 5 * 512}});
  other_process->remove();
  other_process.reset();
  scanning.join();
  EXPECT_EQ(scans->at(0)->count, 3U) << "what the other process found";
  EXPECT_EQ(scans->at(1)->count, 500U);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(std::filesystem::exists(kept_at(i) + ".lock"));
}

// As one that SIGSTOP has stopped.
TEST_F(ScanCache, AProcessThatDoesNotGoOnIsNamedAndNotWaitedFor) {
  TarBuilder tar;
  for (int i = 0; i < 500; ++i) tar.file(std::to_string(i) + ".bin", std::string(10'000, 'x'));
  testing::write_file(dir_ / "a.tar", tar.end().bytes());
  std::filesystem::create_directories(options_.cache);
  const auto other_process = FileLock::try_take(path() + ".lock");
  testing::write_file(path() + ".lock", "process 71 on node1");
  options_.patience = std::chrono::milliseconds(2500);
  options_.log = Log::to_file(dir_ / "log");
  const Strings shards{dir_ / "a.tar"};
  EXPECT_EQ(scan_shards(io::UrlOpener(), shards, {true}, options_)->at(0)->count, 500U);
  const std::string said = testing::read_file(dir_ / "log");
  EXPECT_THAT(said, HasSubstr("waiting for process 71 on node1, which scans " + shards[0]));
  EXPECT_THAT(said, HasSubstr("has not gone on for 2.5 s: it is scanned here too"));
  EXPECT_TRUE(other_process->in_place()) << "its mark is its own";
}

TEST_F(ScanCache, AProcessThatGoesOnIsWaitedFor) {
  TarBuilder tar;
  for (int i = 0; i < 500; ++i) tar.file(std::to_string(i) + ".bin", std::string(10'000, 'x'));
  testing::write_file(dir_ / "a.tar", tar.end().bytes());
  std::filesystem::create_directories(options_.cache);
  auto other_process = FileLock::try_take(path() + ".lock");
  options_.patience = std::chrono::seconds(600);  // a test that fails would take as long
  std::atomic<bool> is_done = false;
  std::jthread scanning([&] {
    EXPECT_EQ(scan().count, 500U);
    is_done = true;
  });
  for (int i = 0; i < 20; ++i) {
    testing::write_file(path() + ".lock", "process 71 on node" + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(is_done);
  other_process->remove();
  other_process.reset();
}

TEST_F(ScanCache, AStopEndsTheWaitForAnotherProcess) {
  TarBuilder tar;
  for (int i = 0; i < 500; ++i) tar.file(std::to_string(i) + ".bin", std::string(10'000, 'x'));
  testing::write_file(dir_ / "a.tar", tar.end().bytes());
  std::filesystem::create_directories(options_.cache);
  const auto other_process = FileLock::try_take(path() + ".lock");
  std::stop_source stop;
  stop.request_stop();
  options_.stop = stop.get_token();
  EXPECT_THROW(scan(), Error);
}

TEST(ScanCacheOverHttp, RequestsTheETagOnly) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  TarBuilder tar;
  for (int i = 0; i < 20; ++i)
    tar.file(std::to_string(i) + ".bin", std::string(3'000'000, 'x'))
        .file(std::to_string(i) + ".cls", "1");
  testing::write_file(dir / "www/a.tar", tar.end().bytes());
  Nginx nginx(dir.path() / "www");
  const ScanOptions options{.cache = dir / "cache"};
  const io::UrlOpener opener;
  const Strings shards{nginx.url("a.tar")};
  const auto logged = [&] {
    const Log log = Log::to_file(dir / "log");
    ScanOptions with_log = options;
    with_log.log = log;
    EXPECT_EQ(scan_shards(opener, shards, {true}, with_log)->at(0)->count, 20U);
    std::string text = testing::read_file(dir / "log");
    std::filesystem::remove(dir / "log");
    return text;
  };
  EXPECT_THAT(logged(), HasSubstr("20 samples, 0.3 MB read")) << "60 MB of payloads are skipped";
  EXPECT_THAT(logged(), HasSubstr("20 samples, 0.0 MB read"));
  testing::write_file(dir / "www/a.tar", TarBuilder().file("a.x", "1").end().bytes());
  EXPECT_EQ(scan_shard(opener, shards[0], options).count, 1U);
}

}  // namespace
}  // namespace millrace::wds
