#include "wds/shard_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/memory_store.h"
#include "tests/support/temp_dir.h"
#include "wds/detail/archive_handles.h"
#include "wds/detail/utf8_locale.h"
#include "wds/manifest.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using testing::read_file;
using testing::TempDir;

WriterSample sample(const std::string& key) {
  return {.key = key,
          .fields = {{"jpg", io::Bytes::copy_of("pixels of " + key)},
                     {"cls", io::Bytes::copy_of("3")}}};
}

std::vector<std::string> written_keys_of(const std::string& path) {
  const io::UrlOpener opener;
  ShardReader reader(opener, path);
  std::vector<std::string> keys;
  for (Sample read; reader.next(read);) keys.push_back(read.key);
  return keys;
}

TEST(ShardWriter, RollsBeforeTheSampleThatWouldBeTooMany) {
  const TempDir dir;
  std::vector<std::string> told;
  ShardWriter writer({.pattern = dir / "s-%03d.tar",
                      .maxcount = 2,
                      .on_shard = [&](const ShardSummary& shard) { told.push_back(shard.url); }});
  for (const char* key : {"a", "b", "c", "d", "e"}) writer.write(sample(key));
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_EQ(shards[0].samples, 2U);
  EXPECT_EQ(shards[2].samples, 1U);
  EXPECT_EQ(shards[1].url, dir / "s-001.tar");
  EXPECT_EQ(shards[1].bytes, std::filesystem::file_size(dir / "s-001.tar"));
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(written_keys_of(dir / "s-001.tar"), (std::vector<std::string>{"c", "d"}));
}

TEST(ShardWriter, RollsByPayloadBytes) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar", .maxsize = 20});
  for (const char* key : {"a", "b", "c", "d"}) writer.write(sample(key));  // 12 bytes each
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].samples, 2U);
}

TEST(ShardWriter, WritesPlainUstarPaddedToRecords) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar"});
  writer.write(sample("a"));
  writer.finish();
  const std::string tar = read_file(dir / "0.tar");
  EXPECT_EQ(tar.size(), 10'240U);
  EXPECT_EQ(tar.substr(0, 6), std::string("a.cls\0", 6)) << "fields in byte order of their names";
  EXPECT_EQ(tar.substr(100, 8), std::string("000444 \0", 8));
  EXPECT_EQ(tar.substr(257, 8), std::string("ustar\00000", 8));
  EXPECT_EQ(tar.substr(265, 8), std::string("bigdata\0", 8));
  EXPECT_EQ(tar.substr(297, 8), std::string("bigdata\0", 8));
  EXPECT_EQ(tar[1024 + 156], '0') << "the second member is a file, not a pax record";
}

TEST(ShardWriter, UsesPaxOnlyWhereUstarCannotHoldTheName) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar"});
  const std::string key = std::string(300, 'k');
  writer.write(sample("short"));
  writer.write(sample(key));
  writer.write(sample("gr\xC3\xBC\xC3\x9F"));
  writer.finish();
  const std::string tar = read_file(dir / "0.tar");
  EXPECT_EQ(tar[156], '0');
  EXPECT_NE(tar.find("path=" + key + ".cls"), std::string::npos);
  EXPECT_EQ(written_keys_of(dir / "0.tar"),
            (std::vector<std::string>{"short", key, "gr\xC3\xBC\xC3\x9F"}));
}

/// The tar that libarchive alone makes of members of these names, each with its name as data.
std::string tar_by_libarchive(const std::vector<std::string>& names) {
  const detail::Utf8Locale locale;
  const detail::Utf8Locale::Scope scope(locale);
  std::string tar(1 << 22, '\0');
  std::size_t used = 0;
  const detail::WriteHandle handle(archive_write_new());
  const detail::EntryHandle entry(archive_entry_new());
  archive_write_set_format_pax_restricted(handle.get());
  archive_write_set_bytes_per_block(handle.get(), 10'240);
  archive_write_set_bytes_in_last_block(handle.get(), 10'240);
  archive_write_open_memory(handle.get(), tar.data(), tar.size(), &used);
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0444);
  archive_entry_set_uname(entry.get(), "bigdata");
  archive_entry_set_gname(entry.get(), "bigdata");
  archive_entry_set_mtime(entry.get(), 1'234'567, 0);
  for (const std::string& name : names) {
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(name.size()));
    EXPECT_EQ(archive_write_header(handle.get(), entry.get()), ARCHIVE_OK) << name;
    archive_write_data(handle.get(), name.data(), name.size());
  }
  archive_write_close(handle.get());
  return tar.substr(0, used);
}

TEST(ShardWriter, PlainMembersHaveTheHeadersThatLibarchiveGivesThem) {
  const TempDir dir;
  std::vector<std::string> keys = {"a b", "gr\xC3\xBC\xC3\x9F", "~", "d/e", "tab\t"};
  for (std::size_t size = 1; size < 130; ++size) keys.push_back("x/" + std::string(size, 'k'));
  std::vector<std::string> names;
  ShardWriter writer({.pattern = dir / "%d.tar", .mtime = 1'234'567});
  for (const std::string& key : keys) {
    names.push_back(key + ".txt");
    writer.write({.key = key, .fields = {{"txt", io::Bytes::copy_of(names.back())}}});
  }
  writer.finish();
  const std::string tar = read_file(dir / "0.tar");
  const std::string expected = tar_by_libarchive(names);
  EXPECT_EQ(tar.size(), expected.size());
  EXPECT_TRUE(tar == expected);
}

TEST(ShardWriter, TheSameSamplesGiveTheSameBytes) {
  const TempDir dir;
  for (const char* name : {"x%d.tar", "y%d.tar"}) {
    ShardWriter writer({.pattern = dir / name, .mtime = 17});
    for (const char* key : {"a", "b"}) writer.write(sample(key));
    writer.finish();
  }
  EXPECT_EQ(read_file(dir / "x0.tar"), read_file(dir / "y0.tar"));
}

TEST(ShardWriter, AnUnfinishedShardLeavesNothingACompleteOneIsKept) {
  const TempDir dir;
  {
    ShardWriter writer({.pattern = dir / "%d.tar", .maxcount = 1});
    writer.write(sample("a"));
    writer.write(sample("b"));
  }
  EXPECT_TRUE(std::filesystem::exists(dir / "0.tar"));
  EXPECT_TRUE(std::filesystem::exists(dir / "0.tar.index.json"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 2);
}

TEST(ShardWriter, WithoutSamplesThereIsNoShard) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar"});
  EXPECT_TRUE(writer.finish().empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

// What a reader finds in the finished shard, as text.
std::string built_index(const std::string& shard, const TempDir& dir) {
  write_index(build_index(io::UrlOpener(), shard), dir / "built", io::Replace::kAtomically);
  return read_file(dir / "built");
}

TEST(ShardWriter, WritesTheIndexThatAReaderWouldBuild) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar", .maxcount = 3});
  const std::string long_key(300, 'k');
  for (const char* key : {"a", "gr\xC3\xBC\xC3\x9F", "c", "d"}) writer.write(sample(key));
  writer.write({.key = long_key,
                .fields = {{"empty", {}},
                           {"bin", io::Bytes::copy_of(std::string(3'000'000, 'x'))},
                           {"seg.png", io::Bytes::copy_of(std::string(512, 'y'))}}});
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 2U);
  for (const ShardSummary& shard : shards) {
    EXPECT_EQ(read_file(shard.url + ".index.json"), built_index(shard.url, dir)) << shard.url;
    EXPECT_EQ(shard.sha256, read_index(io::UrlOpener(), index_url(shard.url)).sha256);
  }
}

// Small payloads are copied, those of some size kept until they are written, large ones cut.
TEST(ShardWriter, PayloadsOfAllSizesArriveInOrder) {
  const TempDir dir;
  std::string noise(1'300'000, '\0');
  std::uint32_t state = 1;
  for (char& byte : noise) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  std::vector<std::string> wrote;
  ShardWriter writer({.pattern = dir / "%d.tar"});
  for (const std::size_t size : {1UL, 16'383UL, 16'384UL, 0UL, 100'001UL, 524'288UL, 524'289UL, 3UL,
                                 1'300'000UL, 70'000UL, 70'000UL, 512UL, 300'000UL, 300'000UL}) {
    wrote.push_back(noise.substr(noise.size() - size));
    writer.write({.key = std::to_string(wrote.size()),
                  .fields = {{"bin", io::Bytes::copy_of(wrote.back())}}});
  }
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 1U);
  EXPECT_EQ(read_file(shards[0].url + ".index.json"), built_index(shards[0].url, dir));
  const io::UrlOpener opener;
  ShardReader reader(opener, shards[0].url);
  std::vector<std::string> read;
  for (Sample next; reader.next(next);) read.emplace_back(next.fields.at(0).data.text());
  EXPECT_EQ(read, wrote);
}

TEST(ShardWriter, WithoutTheIndexTheShardIsTheSame) {
  const TempDir dir;
  for (const bool index : {false, true}) {
    ShardWriter writer({.pattern = dir / (index ? "with%d.tar" : "without%d.tar"), .index = index});
    writer.write(sample("a"));
    writer.finish();
  }
  EXPECT_EQ(read_file(dir / "with0.tar"), read_file(dir / "without0.tar"));
  EXPECT_FALSE(std::filesystem::exists(dir / "without0.tar.index.json"));
}

TEST(ShardWriter, AnIndexWithoutItsShardIsReplaced) {
  const TempDir dir;
  testing::write_file(dir / "0.tar.index.json", "left by a run that was killed");
  ShardWriter writer({.pattern = dir / "%d.tar"});
  writer.write(sample("a"));
  writer.finish();
  EXPECT_EQ(read_file(dir / "0.tar.index.json"), built_index(dir / "0.tar", dir));
}

TEST(ShardWriter, OfTwoWritersTheLoserKeepsTheWinnersIndex) {
  const TempDir dir;
  ShardWriter winner({.pattern = dir / "s-%03d.tar"});
  ShardWriter loser({.pattern = dir / "s-%03d.tar"});
  winner.write(sample("a"));
  loser.write(sample("b"));
  winner.finish();
  const std::string index = read_file(dir / "s-000.tar.index.json");
  EXPECT_THROW(loser.finish(), Error);
  EXPECT_EQ(read_file(dir / "s-000.tar.index.json"), index);
  EXPECT_EQ(written_keys_of(dir / "s-000.tar"), std::vector<std::string>{"a"});
}

/// A writer of "mem://b/s-0.tar" in `store`, with one sample.
ShardWriter store_writer(const io::Opener& opener, const std::string& key,
                         io::Replace replace = io::Replace::kNever) {
  ShardWriter writer({.pattern = "mem://b/s-%d.tar", .replace = replace, .opener = &opener});
  writer.write(sample(key));
  return writer;
}

TEST(ShardWriter, OfTwoWritersToAStoreTheLoserTouchesNothing) {
  testing::MemoryStore store;
  const auto opener = store.opener();
  ShardWriter winner = store_writer(*opener, "a");
  ShardWriter loser = store_writer(*opener, "b");
  winner.finish();
  const auto objects = store.objects();
  EXPECT_EQ(objects.size(), 2U);
  std::vector<std::string> done;
  store.before = [&](const std::string& what, const std::string& url) {
    done.push_back(what + " " + url);
  };
  EXPECT_THROW(loser.finish(), Error);
  EXPECT_EQ(store.objects(), objects);
  EXPECT_EQ(done, std::vector<std::string>{"put mem://b/s-0.tar"}) << "not even for a while";
}

TEST(ShardWriter, AStoresShardWithoutItsIndexIsTakenBack) {
  testing::MemoryStore store;
  const auto opener = store.opener();
  store.put("mem://b/s-0.tar.index.json", "left by a run that was killed");
  ShardWriter writer = store_writer(*opener, "a");
  store.before = [&](const std::string& what, const std::string& url) {
    if (what == "put" && url.ends_with(".json")) throw Error(ErrorCode::kIo, "no room");
  };
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_FALSE(store.objects().contains("mem://b/s-0.tar"));
  store.before = {};
  store_writer(*opener, "b").finish();
  EXPECT_EQ(build_index(*opener, "mem://b/s-0.tar").sha256,
            read_index(*opener, "mem://b/s-0.tar.index.json").sha256);
}

TEST(ShardWriter, AStoresShardIsNeverBesideTheIndexOfTheOneItReplaces) {
  testing::MemoryStore store;
  const auto opener = store.opener();
  store_writer(*opener, "a").finish();
  store.before = [&](const std::string& what, const std::string& url) {
    if (what == "put" && url.ends_with(".tar")) {
      EXPECT_FALSE(store.objects().contains("mem://b/s-0.tar.index.json"));
    }
  };
  store_writer(*opener, "b", io::Replace::kAtomically).finish();
  EXPECT_EQ(store.objects().size(), 2U);
}

TEST(ShardWriter, TheManifestListsAnEarlierRunsShardsToo) {
  const TempDir dir;
  const auto first = [&] {
    ShardWriter writer({.pattern = dir / "%d.tar"});
    writer.write(sample("a"));
    return writer.finish();
  }();
  ShardWriter writer({.pattern = dir / "%d.tar", .manifest = dir / "set.json", .earlier = first});
  writer.write(sample("b"));
  writer.write(sample("c"));
  EXPECT_EQ(writer.finish().size(), 2U);
  const Manifest manifest = read_manifest(io::UrlOpener(), dir / "set.json");
  ASSERT_EQ(manifest.shards.size(), 2U);
  EXPECT_EQ(manifest.shards[0].url, dir / "0.tar");
  EXPECT_EQ(manifest.shards[0].sha256, first[0].sha256);
  EXPECT_EQ(manifest.shards[1].samples, 2U);
  EXPECT_EQ(manifest.shards[1].bytes, std::filesystem::file_size(dir / "1.tar"));
}

TEST(ShardWriter, RefusesWhatAReaderWouldNotFindAgain) {
  const TempDir dir;
  ShardWriter writer({.pattern = dir / "%d.tar"});
  const auto write = [&](const std::string& key, const std::vector<std::string>& suffixes) {
    WriterSample bad{.key = key, .fields = {}};
    for (const auto& suffix : suffixes) bad.fields.push_back({suffix, {}});
    writer.write(bad);
  };
  writer.write(sample("known"));
  EXPECT_THROW(write("known", {"png"}), Error) << "readers want a key's members together";
  EXPECT_THROW(write("", {"jpg"}), Error);
  EXPECT_THROW(write("a", {}), Error);
  EXPECT_THROW(write("a.b", {"jpg"}), Error) << "the reader's key would be a";
  EXPECT_THROW(write("a", {"JPG"}), Error) << "readers lower-case suffixes";
  EXPECT_THROW(write("a", {"cls", "cls"}), Error);
  EXPECT_THROW(write("__meta__/x", {"jpg"}), Error) << "readers skip metadata";
  EXPECT_THROW(write(std::string("a\0b", 3), {"jpg"}), Error);
}

TEST(ShardName, TakesOnePercentDAndNothingElse) {
  EXPECT_EQ(shard_name("a-%06d.tar", 12), "a-000012.tar");
  EXPECT_EQ(shard_name("%d", 7), "7");
  EXPECT_EQ(shard_name("%02d", 1234), "1234");
  for (const char* bad :
       {"a.tar", "%s", "%d%d", "%n", "%", "%0", "%06x", "%999999999999999999999d"}) {
    EXPECT_THROW(shard_name(bad, 0), Error) << bad;
  }
}

TEST(ShardName, OfAUrlMayHaveEscapes) {
  EXPECT_EQ(shard_name("http://h/a%20data/%C3%A9-%06d.tar?s=%2F", 12),
            "http://h/a%20data/%C3%A9-000012.tar?s=%2F");
  for (const char* bad : {"http://h/a%20b.tar", "http://h/%20d-%d-%d.tar", "http://h/%zz%d.tar"})
    EXPECT_THROW(shard_name(bad, 0), Error) << bad;
  EXPECT_THROW(shard_name("a%20b-%d.tar", 0), Error) << "a path has none";
}

TEST(ShardName, OfAShardMayBeInAQuery) {
  for (const char* url : {"http://h/get?file=s-0.tar", "http://h/get.index.json?file=s-0.tar&sig=x",
                          "http://h/s.tar?x", "s3://b/q?x.tar"})
    EXPECT_TRUE(is_shard_or_index(url)) << url;
  for (const char* url : {"http://h/get?file=s.json", "http://h/get"})
    EXPECT_FALSE(is_shard_or_index(url)) << url;
}

TEST(ShardName, ARefusedPatternShowsNoSecrets) {
  try {
    shard_name("http://us:pw@h/w.tar?sig=x", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "InvalidArgument: a shard pattern holds one %d or %0Nd: http://h/w.tar");
  }
}

}  // namespace
}  // namespace millrace::wds
