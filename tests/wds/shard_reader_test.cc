#include "wds/shard_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/base/error.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

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

TEST(ShardReader, ContinuesAtASamplesOffset) {
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

TEST(ShardReader, KeysOfDecomposedUnicodeAreTheirBytes) {
  const std::string name = "e\xCC\x81.jpg";
  EXPECT_EQ(read(TarBuilder().pax_file("e.jpg", "1", {{"path", name}}).end().bytes()),
            (Strings{"e\xCC\x81:jpg=1"}));
  EXPECT_EQ(read(TarBuilder().gnu_file(name, "1").end().bytes()), (Strings{"e\xCC\x81:jpg=1"}));
  EXPECT_EQ(read(TarBuilder()
                     .pax_file("e.jpg", "1", {{"path", name}})
                     .pax_file("f.png", "", {{"path", "f.png"}, {"comment", "no link"}})
                     .end()
                     .bytes()),
            (Strings{"e\xCC\x81:jpg=1", "f:png="}));
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

TEST(ShardReader, SkipsWhatIsNotASample) {
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

// Wherever a tar is truncated, the samples before the cut are complete and the cut is a fault.
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

TEST(ShardReader, AZeroedHeaderIsNotTheEnd) {
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

TEST(ShardReader, NamesTheKindOfAFileThatIsNotATar) {
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

std::string link_to(const char* name, const char* target, char type = '1') {
  return TarBuilder().header({.name = name, .type = type, .link = target}).bytes();
}

TEST(ShardReader, AHardLinkIsTheMemberThatItLeadsTo) {
  const std::string tar = TarBuilder()
                              .file("a.jpg", "A")
                              .raw(link_to("a.png", "a.jpg"))  // in the same sample
                              .file("b.jpg", std::string(2000, 'B'))
                              .raw(link_to("b.png", "a.jpg"))  // in an earlier one
                              .raw(link_to("c.jpg", "b.png"))  // to a link
                              .file("a.txt2/x", "no field")
                              .raw(link_to("d.jpg", "a.txt2/x"))
                              .raw(link_to("d.png", "b.jpg"))
                              .end()
                              .bytes();
  const std::string b(2000, 'B');
  const Strings expected = {"a:jpg=A,png=A", "b:jpg=" + b + ",png=A", "c:jpg=A",
                            "d:jpg=no field,png=" + b};
  EXPECT_EQ(read(tar), expected);
  EXPECT_EQ(read(tar, {.offset = 3 * 512}), Strings(expected.begin() + 1, expected.end()))
      << "from the middle of the shard";
  MemoryOpener opener = one_shard(tar);
  opener.step = 100;
  opener.knows_size = false;
  EXPECT_EQ(read(opener), expected);
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  EXPECT_EQ(read(opener, {.index = index}), expected);
  EXPECT_EQ(read(opener, {.suffixes = {"jpg"}, .index = index}),
            (Strings{"a:jpg=A", "b:jpg=" + b, "c:jpg=A", "d:jpg=no field"}));
}

TEST(ShardReader, ALinkWithoutATargetCostsItsSample) {
  const std::string tar = TarBuilder()
                              .file("a.jpg", "A")
                              .raw(link_to("a.cls", "later.cls"))
                              .file("b.jpg", "B")
                              .raw(link_to("b.cls", "b.cls"))
                              .file("later.cls", "1")
                              .end()
                              .bytes();
  EXPECT_EQ(read(tar), (Strings{"!Corrupt a@1024", "!Corrupt b@2560", "later:cls=1"}));
}

// The shard is read on by its index behind damage; what lies there is no link's target.
TEST(ShardReader, LinksBehindDamageCostTheirSamples) {
  const std::string before = TarBuilder().file("a.jpg", "A").bytes();
  const std::string tar = TarBuilder()
                              .raw(before)
                              .file("b.jpg", "B")
                              .file("c.jpg", "C")
                              .raw(link_to("d.jpg", "a.jpg"))
                              .raw(link_to("e.jpg", "c.jpg"))
                              .end()
                              .bytes();
  MemoryOpener opener = one_shard(tar);
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  opener.files["x.tar"][before.size() + 130] = '7';  // b's header
  EXPECT_EQ(read(opener, {.index = index}),
            (Strings{"a:jpg=A", "!Corrupt b@1024", "c:jpg=C", "d:jpg=A", "!Corrupt e@3584"}));
}

// A tar of a few kilobytes may contain a thousand links to one large member: it is read once.
TEST(ShardReader, LinksDoNotReadTheShardOverAndOver) {
  TarBuilder tar;
  const std::string large(3 << 20, 'x');
  tar.file("a.bin", large).file("b.bin", large);
  for (int i = 0; i < 2000; ++i) {
    const std::string name = std::string("k").append(std::to_string(i)).append(".bin");
    tar.raw(link_to(name.c_str(), i % 2 == 0 ? "a.bin" : "b.bin"));
  }
  const Strings seen = read(tar.end().bytes(), {.tar = {.max_expansion = 10}});
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const std::string& one) {
    return one.starts_with("!Exhausted");
  })) << "alternating targets are read again each time, up to a limit";
}

TEST(ShardReader, CountsWhatItOmits) {
  const std::string tar = TarBuilder()
                              .header({.name = "d/", .type = '5'})
                              .file("d/a.jpg", "A")
                              .raw(link_to("d/a.cls", "elsewhere", '2'))
                              .header({.name = "d/tty", .type = '3'})
                              .end()
                              .bytes();
  const MemoryOpener opener = one_shard(tar);
  ShardReader reader(opener, "x.tar");
  Sample sample;
  ASSERT_TRUE(reader.next(sample));
  EXPECT_FALSE(reader.next(sample));
  EXPECT_EQ(reader.warnings().ignored_members, 2U) << "folders are no loss";
  EXPECT_EQ(reader.warnings().first_ignored, "d/a.cls");
}

TEST(ShardReader, DataBehindTheEndMarkerIsAFaultUnlessAsked) {
  const std::string two = two_samples() + TarBuilder().file("c.jpg", "C").end(512).bytes();
  EXPECT_EQ(read(two), (Strings{"a:jpg=A,cls=1", "!Corrupt b@10240"}));
  EXPECT_EQ(read(two, {.tar = {.behind_end = BehindEnd::kRead}}),
            (Strings{"a:jpg=A,cls=1", "b:jpg=B,cls=2", "c:jpg=C"}));
  const std::string like =
      two_samples() + TarBuilder().file("c.jpg", "C").file("c.cls", "3").end().bytes();
  EXPECT_EQ(read(like, {.tar = {.behind_end = BehindEnd::kRead}}),
            (Strings{"a:jpg=A,cls=1", "b:jpg=B,cls=2", "c:jpg=C,cls=3"}));
  // A sample that lacks a field of the one before may have lost it to a zeroed header.
  const std::string lacking =
      TarBuilder().file("a.jpg", "A").file("a.cls", "1").file("b.jpg", "B").end().bytes();
  EXPECT_EQ(read(lacking + two_samples(), {.tar = {.behind_end = BehindEnd::kRead}})[1],
            "!Corrupt b@2048");
  for (const std::size_t padding : {512U, 1024U, 10'240U, 1U << 20U, 777U})
    EXPECT_EQ(read(two_samples() + std::string(padding, '\0')).size(), 2U) << "zeros are no data";
}

// A member of zeros with a zeroed header looks like an end marker followed by another tar.
TEST(ShardReader, AZeroedMemberNeverGivesAPartialSample) {
  const std::string zeros(1000, '\0');
  const std::string tar = TarBuilder()
                              .file("a.jpg", "A")
                              .file("a.raw", zeros)
                              .file("a.cls", "1")
                              .file("b.jpg", "B")
                              .file("b.raw", zeros)
                              .file("b.cls", "2")
                              .file("c.jpg", "C")
                              .file("c.raw", zeros)
                              .file("c.cls", "3")
                              .end()
                              .bytes();
  const Strings whole = read(tar);
  ASSERT_EQ(whole.size(), 3U);
  MemoryOpener opener = one_shard(tar);
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  for (std::size_t at = 0; at + 512 < tar.size() && tar[at] != '\0';
       at += 512 + (tar[at + 2] == 'r' ? 1024 : 512)) {
    std::string zeroed = tar;
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(at), 512, '\0');
    opener.files["x.tar"] = zeroed;
    for (const BehindEnd behind : {BehindEnd::kFault, BehindEnd::kRead}) {
      for (const bool indexed : {false, true}) {
        const Strings seen =
            read(opener, {.tar = {.behind_end = behind}, .index = indexed ? index : nullptr});
        EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const std::string& one) {
          return one.starts_with("!");
        })) << at;
        for (const std::string& one : seen)
          EXPECT_TRUE(one.starts_with("!") || std::count(whole.begin(), whole.end(), one) == 1)
              << one << " of a member zeroed at " << at << (indexed ? ", indexed" : "");
      }
    }
  }
}

TEST(ShardReader, SkippedMembersAreComparedWithTheIndexExceptTheirBytes) {
  std::string tar = TarBuilder()
                        .file("a.bin", std::string(900'000, 'x'))
                        .file("a.cls", "1")
                        .file("b.bin", std::string(700, 'y'))
                        .file("b.cls", "2")
                        .end()
                        .bytes();
  MemoryOpener opener = one_shard(tar);
  const auto index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  const ShardOptions labels{.suffixes = {"cls"}, .index = index};
  EXPECT_EQ(read(opener, labels), (Strings{"a:cls=1", "b:cls=2"}));
  opener.files["x.tar"][500'000] ^= 1;
  EXPECT_EQ(read(opener, labels), (Strings{"a:cls=1", "b:cls=2"}));
  EXPECT_EQ(read(opener, {.index = index})[0], "!Corrupt a@512");
  opener.files["x.tar"][120] ^= 1;  // in the header of a.bin
  testing::fix_checksum(opener.files["x.tar"], 0);
  EXPECT_EQ(read(opener, labels), (Strings{"!Corrupt a@512", "b:cls=2"}));
}

TEST(ShardReader, AMemberBeyondTheLimitMayBePassedOver) {
  const std::string tar = TarBuilder()
                              .file("a.bin", std::string(3000, 'x'))
                              .file("a.cls", "1")
                              .file("a.BIN", "")
                              .file("b.cls", "2")
                              .end()
                              .bytes();
  const TarOptions limited{.max_member_bytes = 1000};
  EXPECT_EQ(read(tar, {.tar = limited}), (Strings{"!Exhausted a@0", "b:cls=2"}));
  EXPECT_EQ(read(tar, {.tar = limited, .suffixes = {"cls"}}),
            (Strings{"!Corrupt a@4608", "b:cls=2"}))
      << "a suffix twice is a fault, wanted or not";
}

TEST(ShardReader, ATarWithoutMembersHasNoSamples) {
  EXPECT_EQ(read(TarBuilder().end().bytes()), Strings{});
}

}  // namespace
}  // namespace millrace::wds
