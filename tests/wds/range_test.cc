// SampleRange: skipping and taking samples of a list, however it is divided, ordered and read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/sample_access.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

TEST(SampleRange, SaysHowManyOfATotalAreInIt) {
  EXPECT_EQ((SampleRange{}.of(10)), 10U);
  EXPECT_EQ((SampleRange{.skip = 4}.of(10)), 6U);
  EXPECT_EQ((SampleRange{.take = 4}.of(10)), 4U);
  EXPECT_EQ((SampleRange{.skip = 8, .take = 4}.of(10)), 2U);
  EXPECT_EQ((SampleRange{.skip = 11, .take = 4}.of(10)), 0U);
}

/// Shards of 7, 1, 0 and 9 samples, numbered through; the first has an index.
struct Numbered {
  Numbered() {
    const TempDir dir;
    int number = 0;
    for (const std::uint64_t count : {7U, 1U, 0U, 9U}) {
      TarBuilder tar;
      for (std::uint64_t i = 0; i < count; ++i) {
        keys.push_back(std::to_string(100 + number++));
        tar.file(keys.back() + ".cls", "1");
      }
      shards.push_back(std::to_string(shards.size()) + ".tar");
      counts.push_back(count);
      opener.files[shards.back()] = tar.end().bytes();
    }
    write_index(build_index(opener, shards[0]), dir / "i");
    opener.files[index_url(shards[0])] = testing::read_file(dir / "i");
    contents = find_contents(opener, shards);
  }

  Strings read(const SampleRange& range, int streams, const ShuffleOptions& shuffle,
               std::uint32_t passes = 1) const {
    StreamSpec spec{.shards = std::make_shared<const Strings>(shards),
                    .shuffle = shuffle,
                    .num_streams = streams,
                    .passes = passes,
                    .indexed = true,
                    .range = range,
                    .found = {.counts = std::make_shared<const std::vector<std::uint64_t>>(counts),
                              .contents = contents}};
    Strings found;
    std::size_t least = 1000;
    std::size_t most = 0;
    for (spec.stream = 0; spec.stream < streams; ++spec.stream) {
      FaultLedger ledger;
      SampleStream stream(spec, opener, ledger);
      const std::size_t before = found.size();
      for (SampleBlock block; stream.next(block);)
        for (const Sample& sample : block.samples) found.push_back(sample.key);
      least = std::min(least, found.size() - before);
      most = std::max(most, found.size() - before);
    }
    EXPECT_LE(most - least, 1U) << "streams are balanced";
    return found;
  }

  MemoryOpener opener;
  Strings shards;
  Strings keys;
  std::vector<std::uint64_t> counts;
  std::shared_ptr<const SetContents> contents;
};

TEST(SampleRange, IsReadOnceByAnyNumberOfStreamsInAnyOrder) {
  const Numbered set;
  for (const Order order : {Order::kMillrace, Order::kPermutation}) {
    for (const SampleRange range : {SampleRange{}, SampleRange{.skip = 3}, SampleRange{.take = 8},
                                    SampleRange{.skip = 5, .take = 4},
                                    SampleRange{.skip = 7, .take = 1}, SampleRange{.skip = 16}}) {
      const auto first = set.keys.begin() + static_cast<std::ptrdiff_t>(range.skip);
      const Strings wanted(first, first + static_cast<std::ptrdiff_t>(range.of(set.keys.size())));
      for (const int streams : {1, 2, 3}) {
        Strings found = set.read(range, streams,
                                 {.shards = true, .buffer_samples = 4, .seed = 9, .order = order});
        std::ranges::sort(found);
        EXPECT_EQ(found, wanted) << range.skip << " " << range.take << " " << streams;
      }
    }
  }
}

TEST(SampleRange, IsInTheListsOrderBeforeAnythingIsShuffled) {
  const Numbered set;
  EXPECT_THAT(set.read({.skip = 6, .take = 3}, 1, {}), ::testing::ElementsAre("106", "107", "108"));
  EXPECT_THAT(set.read({.skip = 6, .take = 3}, 1, {}, 2),
              ::testing::ElementsAre("106", "107", "108", "106", "107", "108"));
}

TEST(SampleRange, EveryPassHasEachSampleOnceAndStreamsStayBalanced) {
  const Numbered set;
  for (const Order order : {Order::kMillrace, Order::kPermutation}) {
    for (const std::uint64_t take : {1U, 3U, 5U, 16U}) {
      for (const int streams : {2, 3, 4, 7, 20}) {
        Strings found =
            set.read({.skip = 1, .take = take}, streams, {.buffer_samples = 3, .order = order}, 5);
        std::ranges::sort(found);
        Strings wanted;
        for (std::uint64_t i = 1; i <= take; ++i) wanted.insert(wanted.end(), 5, set.keys[i]);
        EXPECT_EQ(found, wanted) << take << " in " << streams;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::wds
