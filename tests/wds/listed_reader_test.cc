// With its index a plain shard is read where the index lists its samples: the same samples, from
// one request, and what is damaged costs itself alone.
#include <gtest/gtest.h>

#include "io/base/error.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;

/// Samples of all sizes around what is copied and what is read into its own memory.
TarBuilder samples_of_all_sizes() {
  TarBuilder tar;
  std::size_t number = 0;
  for (const std::size_t size :
       {0, 1, 511, 512, 513, 31'231, 31'232, 31'233, 300'000, 7, 262'144}) {
    const std::string key = "folder/s" + std::to_string(number++);
    tar.file(key + ".cls", "7").file(key + ".Jpg", std::string(size, static_cast<char>(number)));
  }
  return tar;
}

struct Opened final : io::Opener {
  MemoryOpener files;
  mutable int opens = 0;
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    ++opens;
    return files.open(url, options);
  }
};

Opened shard_of(std::string tar) {
  Opened opener;
  opener.files.files["x.tar"] = std::move(tar);
  return opener;
}

std::string text_of(const Sample& sample) {
  std::string text =
      sample.key + " " + std::to_string(sample.offset) + " " + std::to_string(sample.passed_bytes);
  for (const Field& field : sample.fields)
    text.append(" ").append(field.suffix).append(" ").append(std::to_string(field.offset)) +=
        field.data.text();
  return text;
}

/// Faults as "!KEY".
std::vector<std::string> all_of(const io::Opener& opener, const ShardOptions& options) {
  std::vector<std::string> seen;
  ShardReader reader(opener, "x.tar", options);
  for (Sample sample;;) {
    try {
      if (!reader.next(sample)) return seen;
      seen.push_back(text_of(sample));
    } catch (const Error& fault) {
      seen.push_back("!" + fault.where().key);
      if (!reader.can_continue()) return seen;
    }
  }
}

std::shared_ptr<const ShardIndex> whole_index_of(const io::Opener& opener) {
  return std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
}

TEST(ListedReader, GivesWhatIsGivenWithoutAnIndexFromOneRequest) {
  Opened opener = shard_of(samples_of_all_sizes().end().bytes());
  const auto index = whole_index_of(opener);
  for (const std::vector<std::string>& suffixes :
       std::vector<std::vector<std::string>>{{}, {"jpg"}, {"cls"}}) {
    const auto plain = all_of(opener, {.suffixes = suffixes});
    ASSERT_EQ(plain.size(), 11U);
    for (const std::size_t step : {std::size_t{1'000}, std::size_t{1} << 20}) {
      opener.files.step = step;
      for (const bool knows_size : {true, false}) {
        opener.files.knows_size = knows_size;
        opener.opens = 0;
        EXPECT_EQ(all_of(opener, {.suffixes = suffixes, .index = index}), plain);
        EXPECT_EQ(opener.opens, 1);
      }
    }
  }
}

TEST(ListedReader, BeginsAtAnySample) {
  Opened opener = shard_of(samples_of_all_sizes().end().bytes());
  const auto index = whole_index_of(opener);
  const auto plain = all_of(opener, {});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    opener.opens = 0;
    const std::vector<std::string> rest(plain.begin() + static_cast<std::ptrdiff_t>(i),
                                        plain.end());
    EXPECT_EQ(all_of(opener, {.offset = index->samples[i].offset, .index = index}), rest);
    EXPECT_EQ(opener.opens, 1);
  }
}

TEST(ListedReader, LeavesWhatIsNotPlainToTheOthers) {
  TarBuilder tar = samples_of_all_sizes();
  tar.header({.name = "folder/", .type = '5'})
      .file("behind.cls", "1")
      .pax_file("pax.cls", "2", {{"mtime", "1.5"}})
      .gnu_file(std::string(120, 'n') + ".cls", "3")
      .file("last.cls", "4");
  Opened opener = shard_of(tar.end().bytes());
  const auto index = whole_index_of(opener);
  opener.opens = 0;
  const auto with_index = all_of(opener, {.index = index});
  EXPECT_EQ(opener.opens, 1);
  EXPECT_EQ(with_index, all_of(opener, {}));
  EXPECT_EQ(with_index.size(), 15U);
}

TEST(ListedReader, DamageCostsItsOwnSampleAlone) {
  const std::string tar = samples_of_all_sizes().end().bytes();
  Opened opener = shard_of(tar);
  const auto index = whole_index_of(opener);
  const auto plain = all_of(opener, {});
  for (std::size_t i = 1; i < plain.size(); ++i) {
    const IndexedSample& sample = index->samples[i];
    for (const std::uint64_t place : {sample.offset + 3, sample.members[0].offset}) {
      opener.files.files["x.tar"] = tar;
      opener.files.files["x.tar"][place] ^= 1;
      auto expected = plain;
      expected[i] = "!" + sample.key;
      EXPECT_EQ(all_of(opener, {.index = index}), expected) << i << " at " << place;
    }
  }
}

TEST(ListedReader, AShardThatIsCutSaysSo) {
  const std::string tar = samples_of_all_sizes().end().bytes();
  Opened opener = shard_of(tar);
  const auto index = whole_index_of(opener);
  const auto plain = all_of(opener, {});
  for (const std::uint64_t left : {index->end, index->end - 1, index->samples[9].offset,
                                   index->samples[8].members[1].offset + 5}) {
    opener.files.files["x.tar"] = tar.substr(0, left);
    const auto seen = all_of(opener, {.index = index});
    EXPECT_TRUE(seen.back().starts_with('!')) << left;
    EXPECT_LT(seen.size(), plain.size() + 2);
  }
}

// An index that claims more than there is allocates nothing of it.
TEST(ListedReader, AnIndexThatClaimsMoreIsRefused) {
  Opened opener = shard_of(samples_of_all_sizes().end().bytes());
  for (const std::uint64_t size :
       {std::uint64_t{1} << 29, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    ShardIndex index = *whole_index_of(opener);
    index.samples[2].members[1].size = size;
    const auto seen =
        all_of(opener, {.index = std::make_shared<const ShardIndex>(std::move(index))});
    ASSERT_EQ(seen.size(), 11U);
    EXPECT_EQ(seen[2], "!folder/s2");
  }
}

}  // namespace
}  // namespace millrace::wds
