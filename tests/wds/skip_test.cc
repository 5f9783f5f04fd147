// Members that no field needs are skipped: their payload is not read if skipping is cheaper.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "io/base/hash.h"
#include "tests/support/counting_opener.h"
#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using testing::CountingOpener;
using testing::Nginx;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

constexpr std::uint64_t kHuge = 500'000'000;
constexpr std::uint64_t kHugeBlocks = (kHuge + 511) / 512 * 512;

/// A shard of two samples, the first with a sparse member of 500 MB that takes no disk space.
struct SparseShard {
  SparseShard() {
    const std::string first =
        TarBuilder().file("a.cls", "1").header({.name = "a.bin", .size = kHuge}).bytes();
    const std::string second = TarBuilder().file("b.bin", "small").file("b.cls", "2").end().bytes();
    testing::write_file(dir / "x.tar", first);
    std::filesystem::resize_file(dir / "x.tar", first.size() + kHugeBlocks);
    std::ofstream(dir / "x.tar", std::ios::app) << second;
    const auto header_crc = [](const std::string& tar, std::size_t block) {
      return crc32(std::as_bytes(std::span(tar)).subspan(block * 512, 512));
    };
    const auto crc = [](const std::string& text) { return crc32(std::as_bytes(std::span(text))); };
    const std::uint64_t at = first.size() + kHugeBlocks;
    ShardIndex all;
    all.samples = {{.key = "a",
                    .offset = 0,
                    .members = {{"cls", 512, 1, crc("1"), header_crc(first, 0)},
                                {"bin", 1536, kHuge, 0xBAD, header_crc(first, 2)}}},
                   {.key = "b",
                    .offset = at,
                    .members = {{"bin", at + 512, 5, crc("small"), header_crc(second, 0)},
                                {"cls", at + 1536, 1, crc("2"), header_crc(second, 2)}}}};
    all.end = at + 2048;
    all.bytes = at + second.size();
    index = std::make_shared<const ShardIndex>(all);
  }

  TempDir dir;
  std::shared_ptr<const ShardIndex> index;
};

Strings labels_in(const io::Opener& opener, const std::string& url,
                  const std::shared_ptr<const ShardIndex>& index) {
  Strings labels;
  ShardReader reader(opener, url, {.suffixes = {"cls"}, .index = index});
  for (Sample sample; reader.next(sample);)
    labels.push_back(sample.key + std::string(sample.find("cls")->data.text()));
  return labels;
}

TEST(Skip, AnUnneededMemberIsNotReadFromDisk) {
  const SparseShard shard;
  for (const auto& index : {std::shared_ptr<const ShardIndex>(), shard.index}) {
    const CountingOpener opener;
    EXPECT_EQ(labels_in(opener, shard.dir / "x.tar", index), (Strings{"a1", "b2"}));
    EXPECT_LT(opener.bytes(), 1'000'000U);
  }
}

TEST(Skip, NorOverHttp) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const SparseShard shard;
  for (const auto& index : {std::shared_ptr<const ShardIndex>(), shard.index}) {
    const Nginx nginx(shard.dir.path());
    const CountingOpener opener;
    EXPECT_EQ(labels_in(opener, nginx.url("x.tar"), index), (Strings{"a1", "b2"}));
    EXPECT_LT(opener.bytes(), 20'000'000U) << "what the reader took";
  }
}

// A server without ranges sends everything: skipped bytes are read and dropped.
TEST(Skip, WithoutRangesItIsReadPast) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  testing::write_file(
      dir / "x.tar",
      TarBuilder().file("a.bin", std::string(20'000'000, 'x')).file("a.cls", "1").end().bytes());
  const Nginx nginx(dir.path(), {.location_lines = "max_ranges 0;"});
  const CountingOpener opener;
  EXPECT_EQ(labels_in(opener, nginx.url("x.tar"), nullptr), Strings{"a1"});
  EXPECT_GT(opener.bytes(), 20'000'000U);
}

}  // namespace
}  // namespace millrace::wds
