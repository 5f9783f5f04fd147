#include "wds/indexes_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/wds/memory_opener.h"
#include "wds/detail/index_text.h"
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
  EXPECT_EQ(read_sample_count(ahead, index_url(kShard)), 1U);
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
  EXPECT_EQ(read_sample_count(none, index_url(kShard)), std::nullopt);
}

}  // namespace
}  // namespace millrace::wds
