#include "wds/indexes_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/index_text.h"
#include "wds/sample_stream.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;

constexpr const char* kShard = "http://host/a.tar";

std::string sealed_index(const std::string& key) {
  return detail::sealed(detail::index_text({.samples = {{.key = key, .members = {}}}}));
}

/// Of the index of kShard, which changes after the first time it is opened.
class ChangingIndex {
 public:
  explicit ChangingIndex(const std::string& first, int uses = 1) {
    files_->files[index_url(kShard)] = first;
    ahead_ = std::make_unique<IndexesAhead>(
        files_, std::vector<std::string>(static_cast<std::size_t>(uses), kShard));
  }
  std::string open(std::uint64_t offset = 0) {
    const auto source = ahead_->open(index_url(kShard), {.offset = offset});
    const std::string text(io::read_all(*source, 1 << 24).text());
    files_->files[index_url(kShard)] = "later";
    return text;
  }

 private:
  std::shared_ptr<MemoryOpener> files_ = std::make_shared<MemoryOpener>();
  std::unique_ptr<IndexesAhead> ahead_;
};

TEST(IndexesAhead, KeepWhatWasReadForSoManyOpenings) {
  const std::string index = sealed_index("k");
  ChangingIndex once(index);
  EXPECT_EQ(once.open(), index);
  EXPECT_EQ(once.open(), index) << "kept";
  EXPECT_EQ(once.open(), "later") << "and forgotten";
  ChangingIndex twice(index, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(twice.open(), index);
  EXPECT_EQ(twice.open(), "later");
}

TEST(IndexesAhead, DoNotKeepADamagedOneNorALargeOneNorOneThatNothingSeals) {
  std::string damaged = sealed_index("k");
  damaged[damaged.find('k')] = 'K';
  const std::string large(IndexesAhead::kMostOfOne + 1, ' ');
  for (const std::string& index : {damaged, large, detail::index_text({})}) {
    ChangingIndex changing(index);
    EXPECT_EQ(changing.open(), index);
    EXPECT_EQ(changing.open(), "later");
  }
}

/// A server that sends the beginning of an index, and breaks in the rest.
class BrokenIndex final : public io::Opener {
 public:
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    if (++opened_ == 1) throw Error(ErrorCode::kIo, "broken", {.url = url});
    whole_.files[url] = sealed_index("k");
    return whole_.open(url, options);
  }

 private:
  mutable MemoryOpener whole_;
  mutable int opened_ = 0;
};

TEST(IndexesAhead, CountByTheBeginningOfOneThatCannotBeReadWhole) {
  const IndexesAhead ahead(std::make_shared<BrokenIndex>(), std::vector<std::string>{kShard});
  EXPECT_EQ(read_index_head(ahead, index_url(kShard))->count, 1U);
}

TEST(IndexesAhead, OpenWhatBeginsLaterAsUsual) {
  const std::string index = sealed_index("k");
  ChangingIndex changing(index);
  EXPECT_EQ(changing.open(), index);
  EXPECT_EQ(changing.open(2), "ter");
}

TEST(IndexesAhead, SayWhatIsMissing) {
  const IndexesAhead none(std::make_shared<MemoryOpener>(), std::vector<std::string>{kShard});
  EXPECT_EQ(find_index(none, kShard), nullptr);
  EXPECT_FALSE(read_index_head(none, index_url(kShard)));
}

/// Counts how often the shard is opened.
class ShardCount final : public io::Opener {
 public:
  testing::MemoryOpener files;
  mutable int opens = 0;

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    opens += url == kShard ? 1 : 0;
    return files.open(url, options);
  }
};

/// The keys of the first of two streams over a shard in front of whose samples `folder` lies.
std::vector<std::string> keys_behind(const std::string& folder, ShardCount& opener) {
  testing::TarBuilder tar;
  tar.raw(folder);
  for (const char* key : {"./a", "./b", "./c", "./d"})
    tar.file(std::string(key) + ".cls", "1").file(std::string(key) + ".jpg", "picture");
  opener.files.files[kShard] = tar.end().bytes();
  opener.files.files[index_url(kShard)] =
      detail::sealed(detail::index_text(build_index(opener.files, kShard)));
  const StreamSpec spec{
      .shards = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{kShard}),
      .num_streams = 2,
      .indexed = true,
      .found = {.counts = std::make_shared<const std::vector<std::uint64_t>>(
                    std::vector<std::uint64_t>{4})}};
  FaultLedger ledger;
  SampleStream stream(spec, opener, ledger);
  std::vector<std::string> keys;
  for (Sample sample; stream.next(sample);) keys.push_back(sample.key);
  EXPECT_EQ(ledger.warnings(), 0U);
  return keys;
}

// As `tar -c .` writes it. A piece begins at its first sample, which the index says when the shard
// has been asked for already.
TEST(IndexesAhead, AShardThatBeginsWithAFolderIsOpenedOnce) {
  testing::TarBuilder folder, many;
  folder.header({.name = "./", .type = '5'});
  for (int i = 0; i < 200; ++i) many.header({.name = "d" + std::to_string(i) + "/", .type = '5'});
  for (const auto& [front, opens] :
       std::vector<std::pair<std::string, int>>{{"", 1}, {folder.bytes(), 1}, {many.bytes(), 2}}) {
    ShardCount opener;
    EXPECT_EQ(keys_behind(front, opener), (std::vector<std::string>{"./a", "./b"}));
    EXPECT_EQ(opener.opens, opens) << front.size() << " bytes in front of the first sample";
  }
}

}  // namespace
}  // namespace millrace::wds
