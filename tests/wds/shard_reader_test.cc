#include "wds/shard_reader.h"

#include <gtest/gtest.h>

#include "io/base/error.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"

namespace millrace::wds {
namespace {

using testing::fix_checksum;
using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TarFormat;

MemoryOpener one_shard(std::string tar) {
  MemoryOpener opener;
  opener.files["x.tar"] = std::move(tar);
  return opener;
}

/// "key:suffix=data,suffix=data" for each sample; a fault as "!Code key@offset".
std::vector<std::string> read(const MemoryOpener& opener, const ShardOptions& options = {}) {
  std::vector<std::string> seen;
  ShardReader reader(opener, "x.tar", options);
  for (;;) {
    try {
      Sample sample;
      if (!reader.next(sample)) return seen;
      std::string text = sample.key + ":";
      for (const Field& field : sample.fields) {
        text +=
            (text.back() == ':' ? "" : ",") + field.suffix + "=" + std::string(field.data.text());
      }
      seen.push_back(text);
    } catch (const Error& error) {
      seen.push_back("!" + std::string(error_code_name(error.code())) + " " + error.where().key +
                     "@" + std::to_string(error.where().offset.value_or(999'999)));
      if (!reader.can_continue()) return seen;
    }
  }
}
std::vector<std::string> read(const std::string& tar, const ShardOptions& options = {}) {
  return read(one_shard(tar), options);
}

using Strings = std::vector<std::string>;

std::string two_samples() {
  return TarBuilder()
      .file("a.jpg", "A")
      .file("a.cls", "1")
      .file("b.jpg", "B")
      .file("b.cls", "2")
      .end()
      .bytes();
}

TEST(ShardReader, GroupsConsecutiveMembersOfOneKey) {
  EXPECT_EQ(read(two_samples()), (Strings{"a:jpg=A,cls=1", "b:jpg=B,cls=2"}));
}

TEST(ShardReader, SaysWhereSamplesAndFieldsLie) {
  const MemoryOpener opener = one_shard(two_samples());
  ShardReader reader(opener, "x.tar");
  Sample sample;
  ASSERT_TRUE(reader.next(sample));
  EXPECT_EQ(sample.offset, 0U);
  EXPECT_EQ(sample.fields[0].offset, 512U);
  EXPECT_EQ(sample.fields[1].offset, 1536U);
  EXPECT_EQ(reader.position(), 2048U);
  ASSERT_TRUE(reader.next(sample));
  EXPECT_EQ(sample.offset, 2048U);
  EXPECT_EQ(*sample.url, "x.tar");
}

TEST(ShardReader, GoesOnAtASamplesOffset) {
  EXPECT_EQ(read(two_samples(), {.offset = 2048}), (Strings{"b:jpg=B,cls=2"}));
}

TEST(ShardReader, ReadsEveryDialect) {
  const std::string deep = std::string(60, 'd') + "/" + std::string(60, 'e') + ".jpg";
  const std::string longer = std::string(200, 'n') + ".jpg";
  const std::string tar = TarBuilder()
                              .file("v.jpg", "7", TarFormat::kV7)
                              .file("g.jpg", "gnu", TarFormat::kGnu)
                              .file(deep, "prefix")
                              .gnu_file(longer, "long")
                              .pax_file("p.jpg", "pax", {{"path", "\xC3\xA4.jpg"}})
                              .end()
                              .bytes();
  EXPECT_EQ(read(tar), (Strings{"v:jpg=7", "g:jpg=gnu", deep.substr(0, 121) + ":jpg=prefix",
                                longer.substr(0, 200) + ":jpg=long", "\xC3\xA4:jpg=pax"}));
}

TEST(ShardReader, SameSamplesWhereverBuffersEnd) {
  TarBuilder builder;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i);
    builder.pax_file(key + ".jpg", std::string(static_cast<std::size_t>(i) * 977, 'x'),
                     {{"mtime", "1.5"}});
    builder.file(key + ".cls", std::to_string(i));
  }
  MemoryOpener opener = one_shard(builder.end().bytes());
  const Strings whole = read(opener);
  ASSERT_EQ(whole.size(), 40U);
  for (const std::size_t step : {1U, 7U, 511U, 513U, 4096U}) {
    opener.step = step;
    for (const bool knows : {true, false}) {
      opener.knows_size = knows;
      EXPECT_EQ(read(opener), whole) << step;
    }
  }
}

TEST(ShardReader, SkipsWhatIsNoSample) {
  const std::string tar = TarBuilder()
                              .header({.name = "d/", .type = '5'})
                              .file("__index__", "x")
                              .file("noext", "y")
                              .file(".hidden", "z")
                              .header({.name = "l.jpg", .type = '2', .link = "a.jpg"})
                              .file("a.jpg", "A")
                              .file("__d__/a.txt", "t")
                              .file("a.cls", "1")
                              .end()
                              .bytes();
  EXPECT_EQ(read(tar), Strings{"a:jpg=A,cls=1"});
}

TEST(ShardReader, ASuffixTwiceCostsTheSampleAlone) {
  const std::string tar = TarBuilder()
                              .file("a.jpg", "A")
                              .file("a.JPG", "X")
                              .file("a.cls", "1")
                              .file("b.jpg", "B")
                              .end()
                              .bytes();
  EXPECT_EQ(read(tar), (Strings{"!Corrupt a@1024", "b:jpg=B"}));
}

TEST(ShardReader, InterleavedKeysAreAFaultUnlessLenient) {
  const std::string tar = TarBuilder()
                              .file("a.jpg", "A")
                              .file("b.jpg", "B")
                              .file("a.cls", "1")
                              .file("c.x", "C")
                              .end()
                              .bytes();
  EXPECT_EQ(read(tar), (Strings{"a:jpg=A", "b:jpg=B", "!Corrupt a@2048", "c:x=C"}));
  EXPECT_EQ(read(tar, {.lenient = true}), (Strings{"a:jpg=A", "b:jpg=B", "a:cls=1", "c:x=C"}));
}

TEST(ShardReader, RenamesThenSelects) {
  ShardOptions options;
  options.rename = [](const std::string& name) { return "r_" + name; };
  options.select = [](const std::string& name) { return name != "r_a.cls"; };
  EXPECT_EQ(read(two_samples(), options), (Strings{"r_a:jpg=A", "r_b:jpg=B,cls=2"}));
}

// Wherever a tar is cut, what comes before the cut sample is whole and the cut is a fault.
TEST(ShardReader, ACutAnywhereIsTruncatedAndNeverGivesAPartialSample) {
  const std::string tar = two_samples();
  for (std::size_t cut = 0; cut < 4 * 1024 + 1024; cut += 128) {
    const Strings seen = read(tar.substr(0, cut));
    ASSERT_FALSE(seen.empty()) << cut;
    EXPECT_TRUE(seen.back().starts_with("!Truncated")) << cut << " " << seen.back();
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) {
      EXPECT_EQ(seen[i], i == 0 ? "a:jpg=A,cls=1" : "b:jpg=B,cls=2") << cut;
    }
  }
}

TEST(ShardReader, LenientTakesACutBetweenSamples) {
  const std::string tar = two_samples();
  EXPECT_EQ(read(tar.substr(0, 4096), {.lenient = true}),
            (Strings{"a:jpg=A,cls=1", "b:jpg=B,cls=2"}));
  EXPECT_EQ(read(tar.substr(0, 3072), {.lenient = true}),
            (Strings{"a:jpg=A,cls=1", "!Truncated b@2048"}));
}

TEST(ShardReader, AZeroedHeaderIsNoEnd) {
  std::string tar = two_samples();
  std::fill_n(tar.begin() + 2048, 512, '\0');
  EXPECT_EQ(read(tar), (Strings{"!Corrupt a@2048"}));
}

TEST(ShardReader, ABadChecksumIsAFaultAnywhere) {
  for (const std::size_t header : {0U, 1024U, 2048U, 3072U}) {
    std::string tar = two_samples();
    tar[header + 100] ^= 1;
    const Strings seen = read(tar);
    EXPECT_TRUE(seen.back().starts_with("!Corrupt")) << seen.back();
    EXPECT_EQ(seen.size(), header < 3072 && header != 2048 ? 1U : seen.size());
  }
}

TEST(ShardReader, SaysWhatAFileIsThatIsNoTar) {
  const std::pair<const char*, const char*> files[] = {
      {"", "an empty file"},
      {"<!DOCTYPE html><html>", "HTML"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git-LFS"},
      {"\x89PNG....", "starts with '.PNG"}};
  for (const auto& [content, expected] : files) {
    const MemoryOpener opener = one_shard(content);
    ShardReader reader(opener, "x.tar");
    Sample sample;
    try {
      reader.next(sample);
      FAIL() << expected;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(expected), std::string::npos) << error.what();
      EXPECT_EQ(error.where().url, "x.tar");
    }
  }
}

TEST(ShardReader, ATarWithoutMembersHasNoSamples) {
  EXPECT_EQ(read(TarBuilder().end().bytes()), Strings{});
}

}  // namespace
}  // namespace millrace::wds
