#include "wds/sample_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

#include "tests/wds/memory_opener.h"

namespace millrace::wds {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsNull;
using testing::MemoryOpener;
using ::testing::Pointee;
using ::testing::SizeIs;

/// Indexes of a number of shards; shard i has i samples. Records what was opened.
class Indexes final : public io::Opener {
 public:
  Indexes(const std::string& prefix, int count) {
    for (int i = 0; i < count; ++i) {
      shards.push_back(prefix + std::to_string(i) + ".tar");
      files.files[shards.back() + ".index.json"] =
          R"({"millrace_index":1,"count":)" + std::to_string(i) + R"(,"samples":[]})" +
          std::string(static_cast<std::size_t>(i) * 20, ' ');
    }
  }
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    {
      std::unique_lock lock(mutex);
      opened.insert(url);
      came.notify_all();
      if (!came.wait_for(lock, std::chrono::seconds(60), [&] { return opened.size() >= wait_for; }))
        all_came = false;
    }
    return files.open(url, options);
  }

  std::vector<std::string> shards;
  MemoryOpener files;
  std::size_t wait_for = 0;  ///< so many are opened before one returns
  mutable bool all_came = true;
  mutable std::mutex mutex;
  mutable std::condition_variable came;
  mutable std::multiset<std::string> opened;
};

TEST(SampleCounts, AreInTheShardsOrderFromDiskAndNetwork) {
  for (const char* prefix : {"d/", "http://host/"}) {
    const Indexes indexes(prefix, 50);
    const auto counts = sample_counts(indexes, indexes.shards);
    ASSERT_THAT(counts, Pointee(SizeIs(50)));
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ((*counts)[i], i);
    EXPECT_EQ(indexes.opened.size(), 50U) << "each is asked for once";
  }
}

TEST(SampleCounts, ASetWithoutIndexesIsAskedOnce) {
  Indexes indexes("http://host/", 50);
  indexes.files.files.erase("http://host/0.tar.index.json");
  EXPECT_THAT(sample_counts(indexes, indexes.shards), IsNull());
  EXPECT_THAT(indexed_counts(indexes, indexes.shards), Each(Eq(std::nullopt)));
  EXPECT_THAT(indexes.opened, Contains("http://host/0.tar.index.json").Times(2));
  EXPECT_LE(indexes.opened.size(), 2U * 16) << "the first round of requests";
}

TEST(SampleCounts, TheFirstIndexIsAskedForWithOthers) {
  Indexes indexes("http://host/", 50);
  indexes.wait_for = 16;
  EXPECT_THAT(sample_counts(indexes, indexes.shards), Pointee(SizeIs(50)));
  EXPECT_TRUE(indexes.all_came);
}

TEST(SampleCounts, OneShardWithoutAnIndexLeavesNoCounts) {
  Indexes indexes("http://host/", 50);
  indexes.files.files.erase("http://host/31.tar.index.json");
  EXPECT_THAT(sample_counts(indexes, indexes.shards), IsNull());
}

TEST(SampleCounts, TheFirstFaultIsThrown) {
  Indexes indexes("http://host/", 50);
  for (const char* shard : {"17", "18", "40"})
    indexes.files.files["http://host/" + std::string(shard) + ".tar.index.json"] = "{}";
  try {
    sample_counts(indexes, indexes.shards);
    FAIL() << "a damaged index was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.where().url, HasSubstr("/17.tar"));
  }
}

TEST(SampleCounts, EveryDamagedIndexIsReported) {
  Indexes indexes("http://host/", 50);
  for (const char* shard : {"17", "18", "40"})
    indexes.files.files["http://host/" + std::string(shard) + ".tar.index.json"] = "{}";
  std::vector<std::string> told;
  std::optional<std::uint64_t> count;
  const auto ask = [&](const std::string& shard, const Error& fault) {
    told.push_back(shard);
    EXPECT_EQ(fault.where().url, shard + ".index.json");
    return count;
  };
  EXPECT_THAT(sample_counts(indexes, indexes.shards, {}, ask), IsNull());
  EXPECT_THAT(told, ElementsAre(HasSubstr("/17.tar"), HasSubstr("/18.tar"), HasSubstr("/40.tar")));
  count = 7;
  const auto counts = sample_counts(indexes, indexes.shards, {}, ask);
  ASSERT_THAT(counts, Pointee(SizeIs(50)));
  EXPECT_EQ((*counts)[16], 16U);
  EXPECT_EQ((*counts)[17], 7U);
}

TEST(SampleCounts, ACountThatNoIndexOfThatSizeCanHoldIsDamage) {
  Indexes indexes("d/", 1);
  indexes.files.files["d/0.tar.index.json"] =
      R"({"millrace_index":1,"count":18446744073709551615,"samples":[]})";
  EXPECT_THROW(sample_counts(indexes, indexes.shards), Error);
}

TEST(SampleCounts, PipesHaveNone) {
  const Indexes indexes("d/", 1);
  EXPECT_THAT(sample_counts(indexes, std::vector<std::string>{"d/0.tar", "-"}), IsNull());
  EXPECT_TRUE(indexes.opened.empty());
}

}  // namespace
}  // namespace millrace::wds
