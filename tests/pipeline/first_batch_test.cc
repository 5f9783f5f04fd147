// What the first batch of distant shards waits for: how many rounds of requests, and for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kShards = 16;
constexpr std::size_t kReaders = 4;

bool is_index(const std::string& url) { return url.ends_with(".index.json"); }

/// What an index is answered after.
enum class IndexesCome { kTogether, kWithTheirShards };

/// Shards on a server that answers a round of requests once all of them have come: the indexes
/// together, and then the first shard of each stream.
class DistantShards final : public io::Opener {
 public:
  explicit DistantShards(int last_count, IndexesCome come = IndexesCome::kTogether)
      : come_with_(come) {
    const testing::TempDir folder;
    for (std::size_t i = 0; i < kShards; ++i)
      add(folder / "x.tar", i, i + 1 < kShards ? 8 : last_count);
  }

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    std::unique_lock lock(mutex_);
    opened_.push_back(url);
    came_.notify_all();
    const bool index = is_index(url);
    const bool asked_with = index && come_with_ == IndexesCome::kWithTheirShards;
    const auto is_whole = [&] {
      return count(index) >= (index ? kShards : kReaders) &&
             (!asked_with || count(!index) >= kShards);
    };
    if (!came_.wait_for(lock, std::chrono::seconds(60), is_whole)) late_.push_back(url);
    return files_.open(url, options);
  }

  const std::vector<std::string>& urls() const { return urls_; }
  /// In order.
  std::vector<std::string> opened() const {
    const std::lock_guard lock(mutex_);
    return opened_;
  }
  /// Whose round never became whole.
  std::vector<std::string> late() const {
    const std::lock_guard lock(mutex_);
    return late_;
  }

 private:
  void add(const std::string& file, std::size_t shard, int samples) {
    testing::TarBuilder tar;
    for (int i = 0; i < samples; ++i)
      tar.file(std::to_string(shard) + "-" + std::to_string(i) + ".cls", "3");
    testing::write_file(file, tar.end().bytes());
    wds::write_index(wds::build_index(io::UrlOpener(), file), wds::index_url(file),
                     io::Replace::kAtomically);
    urls_.push_back("http://host/x-" + std::to_string(shard) + ".tar");
    files_.files[urls_.back()] = testing::read_file(file);
    files_.files[wds::index_url(urls_.back())] = testing::read_file(wds::index_url(file));
  }
  std::size_t count(bool indexes) const {
    return static_cast<std::size_t>(
        std::count_if(opened_.begin(), opened_.end(),
                      [&](const std::string& url) { return is_index(url) == indexes; }));
  }

  const IndexesCome come_with_;
  std::vector<std::string> urls_;
  testing::MemoryOpener files_;
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  mutable std::vector<std::string> opened_;
  mutable std::vector<std::string> late_;
};

Pipeline pipeline_of(std::shared_ptr<const DistantShards> shards) {
  const std::vector<std::string> urls = shards->urls();
  return Pipeline::Builder()
      .shards(urls)
      .opener(std::move(shards))
      .indexed()
      .shuffle({.shards = true, .seed = 3})
      .split({.workers = static_cast<int>(kReaders)})
      .field(LabelField{.classes = 10})
      .batch({.size = 8})
      .resources({.threads = 2})
      .build();
}

TEST(FirstBatch, OfDistantShardsTakesTwoRoundsOfRequests) {
  for (const int last_count : {8, 3}) {
    const auto shards = std::make_shared<DistantShards>(last_count);
    Pipeline pipeline = pipeline_of(shards);
    Batch batch;
    ASSERT_TRUE(pipeline.next(batch));
    EXPECT_EQ(batch.num_valid, 8);
    EXPECT_THAT(shards->late(), IsEmpty()) << "all of a round are asked for at once";
    const std::vector<std::string> opened = shards->opened();
    ASSERT_GE(opened.size(), kShards + kReaders);
    const auto shards_begin = opened.begin() + kShards;
    EXPECT_TRUE(std::all_of(opened.begin(), shards_begin, is_index))
        << "the indexes, to count the samples";
    EXPECT_TRUE(std::none_of(shards_begin, shards_begin + kReaders, is_index))
        << "a stream's first shard is read by what was fetched to count it";
    while (pipeline.next(batch)) continue;
    EXPECT_THAT(shards->late(), IsEmpty());
  }
}

TEST(FirstBatch, WhetherIndexesAreOfTheirShardsIsAskedWithThem) {
  const auto shards = std::make_shared<DistantShards>(8, IndexesCome::kWithTheirShards);
  const std::vector<std::string> urls = shards->urls();
  Pipeline pipeline = Pipeline::Builder()
                          .shards(urls)
                          .opener(shards)
                          .indexed()
                          .shuffle({.order = wds::Order::kPermutation})
                          .field(LabelField{.classes = 10})
                          .batch({.size = 8})
                          .resources({.threads = 2})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(shards->late(), IsEmpty()) << "no round of requests is for the shards' sizes alone";
}

TEST(FirstBatch, WholeShardsAreOpenedWithTheirIndexes) {
  const auto shards = std::make_shared<DistantShards>(8);
  const std::vector<std::string> urls = shards->urls();
  Pipeline pipeline = Pipeline::Builder()
                          .shards(urls)
                          .opener(shards)
                          .indexed()
                          .shuffle({.order = wds::Order::kWebDataset})
                          .split({.workers = static_cast<int>(kShards)})
                          .field(LabelField{.classes = 10})
                          .batch({.size = 8})
                          .resources({.threads = 2})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch)) << "an index is answered when all shards' are asked for";
  EXPECT_THAT(shards->late(), IsEmpty());
  while (pipeline.next(batch)) continue;
  EXPECT_THAT(shards->opened(), SizeIs(2 * kShards));
}

}  // namespace
}  // namespace millrace::pipeline
