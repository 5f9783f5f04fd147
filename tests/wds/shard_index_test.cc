#include "wds/shard_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/opener.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

std::string four_samples() {
  TarBuilder tar;
  for (const char* key : {"a", "b", "c", "d"}) {
    tar.file(std::string(key) + ".cls", "1")
        .pax_file(std::string(key) + ".jpg", "pixels of ", {{"mtime", "1.5"}});
  }
  return tar.end().bytes();
}

MemoryOpener indexed_shard(std::string tar) {
  MemoryOpener opener;
  opener.files["x.tar"] = std::move(tar);
  return opener;
}

Strings read_indexed(const MemoryOpener& opener, const ShardOptions& options) {
  Strings seen;
  ShardReader reader(opener, "x.tar", options);
  for (;;) {
    try {
      Sample sample;
      if (!reader.next(sample)) return seen;
      seen.push_back(sample.key);
    } catch (const Error& error) {
      seen.push_back("!" + error.where().key);
      if (!reader.can_continue()) return seen;
    }
  }
}

TEST(ShardIndex, SaysWhatTheShardHolds) {
  const MemoryOpener opener = indexed_shard(four_samples());
  const ShardIndex index = build_index(opener, "x.tar");
  ASSERT_EQ(index.samples.size(), 4U);
  EXPECT_EQ(index.bytes, opener.files.at("x.tar").size());
  EXPECT_EQ(index.samples[0].key, "a");
  EXPECT_EQ(index.samples[0].members[0].offset, 512U);
  EXPECT_EQ(index.samples[0].members[1].offset, 1024U + 1024U + 512U);
  EXPECT_EQ(index.samples[0].members[1].crc32,
            crc32(std::as_bytes(std::span(std::string_view("pixels of ")))));
  EXPECT_EQ(index.end, index.samples[3].offset + 1024U + 1024U + 1024U);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(std::string_view(opener.files.at("x.tar")))));
  EXPECT_EQ(index.sha256, hash.hex());
}

TEST(ShardIndex, ReadsBackWhatItWrote) {
  const TempDir dir;
  const MemoryOpener opener = indexed_shard(four_samples());
  const ShardIndex index = build_index(opener, "x.tar");
  write_index(index, dir / "x.tar.index.json");
  const auto back = find_index(io::UrlOpener(), dir / "x.tar");
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->end, index.end);
  EXPECT_EQ(back->sha256, index.sha256);
  ASSERT_EQ(back->samples.size(), 4U);
  EXPECT_EQ(back->samples[2].members[1].crc32, index.samples[2].members[1].crc32);
  EXPECT_EQ(back->samples[2].members[1].header_crc32, index.samples[2].members[1].header_crc32);
  const auto head = read_index_head(io::UrlOpener(), dir / "x.tar.index.json");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->count, 4U);
  EXPECT_EQ(head->sha256, index.sha256);
  EXPECT_EQ(find_index(io::UrlOpener(), dir / "y.tar"), nullptr);
}

TEST(ShardIndex, ADamagedIndexIsCorrupt) {
  MemoryOpener opener;
  for (
      const char* text :
      {"", "[]", "{}", R"({"millrace_index":2})",
       R"({"millrace_index":1,"bytes":1,"count":1,"end":1})",
       R"({"millrace_index":1,"bytes":1,"count":1,"end":1,"samples":[["k",0]]})",
       R"({"millrace_index":1,"bytes":1,"count":1,"end":1,"samples":[["k",0,[["s",1,1,"x","y"]]]]})",
       R"({"millrace_index":1,"bytes":1,"count":1,"end":1,"samples":[["k",5,[]],["l",0,[]]]})"}) {
    opener.files["i.json"] = text;
    try {
      read_index(opener, "i.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << text;
    }
  }
}

TEST(ShardIndex, IsBesideItsShard) {
  EXPECT_EQ(index_url("d/a.tar"), "d/a.tar.index.json");
  EXPECT_EQ(index_url("http://h/a.tar?k=1"), "http://h/a.tar.index.json?k=1");
}

TEST(ShardIndex, DamageCostsItsOwnSampleAlone) {
  MemoryOpener opener = indexed_shard(four_samples());
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  std::string& tar = opener.files["x.tar"];
  std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(index->samples[1].offset), 512, '\0');
  tar[index->samples[2].members[1].offset] ^= 1;
  EXPECT_EQ(read_indexed(opener, {.index = index}), (Strings{"!a", "!b", "!c", "d"}))
      << "a's end is not known either";
  tar.resize(index->samples[3].offset + 100);
  EXPECT_EQ(read_indexed(opener, {.index = index}).back(), "!d");
}

TEST(ShardIndex, AShardOfAnotherLengthIsFound) {
  MemoryOpener opener = indexed_shard(four_samples());
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  opener.files["x.tar"].resize(opener.files["x.tar"].size() - 512);
  EXPECT_EQ(read_indexed(opener, {.index = index}), (Strings{"a", "b", "c", "d", "!"}));
}

TEST(ShardIndex, ReadsAPieceOfAShard) {
  const MemoryOpener opener = indexed_shard(four_samples());
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  EXPECT_EQ(
      read_indexed(opener, {.offset = index->samples[1].offset, .index = index, .max_samples = 2}),
      (Strings{"b", "c"}));
}

TEST(ShardIndex, NamesThatDaliCannotReadAreRefused) {
  const TempDir dir;
  for (const std::string name : {"a b.jpg", "a.j\tg", "d\n/a.jpg", "a."}) {
    MemoryOpener opener;
    opener.files["x.tar"] = TarBuilder().file("0.cls", "1").file(name, "x").end().bytes();
    const ShardIndex index = build_index(opener, "x.tar");
    ASSERT_EQ(index.samples.size(), 2U) << name;
    try {
      write_dali_index(index, dir / "x.idx");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_EQ(error.where().member, name);
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "x.idx"));
  }
}

TEST(ShardIndex, DaliLinesAreSuffixOffsetSizeName) {
  const TempDir dir;
  const MemoryOpener opener =
      indexed_shard(TarBuilder().file("a.cls", "1").file("a.jpg", "xy").end().bytes());
  write_dali_index(build_index(opener, "x.tar"), dir / "x.idx");
  EXPECT_EQ(testing::read_file(dir / "x.idx"), "v1.2 1\ncls 512 1 a.cls jpg 1536 2 a.jpg\n");
}

TEST(ShardIndex, OfAKeyWithAQuestionMarkIsBesideIt) {
  EXPECT_EQ(index_url("s3://b/q?x=1.tar"), "s3://b/q?x=1.tar.index.json");
  EXPECT_EQ(index_url("gs://b/h#h.tar"), "gs://b/h#h.tar.index.json");
  EXPECT_EQ(index_url("http://h/a.tar?sig=1"), "http://h/a.tar.index.json?sig=1");
}

}  // namespace
}  // namespace millrace::wds
