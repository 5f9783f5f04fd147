#include "wds/shuffle_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using Ref = std::pair<std::uint32_t, std::uint64_t>;

testing::MemoryOpener two_shards() {
  testing::MemoryOpener opener;
  for (const char* name : {"0.tar", "1.tar"}) {
    testing::TarBuilder tar;
    for (int i = 0; i < 40; ++i) tar.file(std::to_string(i) + ".cls", "1");
    opener.files[name] = tar.end().bytes();
  }
  return opener;
}

/// The samples at each place by the draws, of a stream that read `order`.
std::vector<Ref> by_draws(const StreamSpec& spec, const StreamPosition& at,
                          const std::vector<Ref>& order) {
  const auto samples =
      drawn_samples({.seed = spec.shuffle.seed,
                     .epoch = spec.epoch,
                     .stream = static_cast<std::uint32_t>(spec.stream),
                     .buffer_samples = static_cast<std::uint64_t>(spec.shuffle.buffer_samples),
                     .earlier = at.earlier_passes,
                     .in = at.samples_in - at.earlier_passes,
                     .out = at.samples_out - at.earlier_passes});
  std::vector<Ref> refs;
  for (const std::uint64_t sample : samples.value()) refs.push_back(order.at(sample));
  return refs;
}

TEST(ShuffleDraws, SayWhichSampleIsAtWhichPlaceOfEveryBuffer) {
  const testing::MemoryOpener opener = two_shards();
  for (const std::int64_t limit : {1, 2, 3, 17, 79, 80, 200}) {
    StreamSpec spec;
    spec.shards = std::make_shared<const std::vector<std::string>>(
        std::vector<std::string>{"0.tar", "1.tar"});
    spec.shuffle = {.buffer_samples = limit, .seed = 5};
    spec.epoch = 3;
    spec.passes = 2;
    FaultLedger ledger;
    SampleStream stream(spec, opener, ledger);
    std::vector<Ref> order;
    for (const std::uint32_t shard : {0, 1})
      for (std::uint64_t i = 0; i < 40; ++i) order.emplace_back(shard, i * 1024);
    std::size_t returned = 0;
    for (Sample sample; stream.next(sample); ++returned) {
      const StreamPosition at = stream.position();
      std::vector<Ref> held;
      for (const auto& ref : at.buffered) held.emplace_back(ref.shard % 2, ref.offset);
      ASSERT_EQ(by_draws(spec, at, order), held) << limit << " after " << returned;
    }
    EXPECT_EQ(returned, 160U);
  }
}

TEST(ShuffleDraws, AreNoneOfABufferThatCannotBe) {
  EXPECT_FALSE(drawn_samples({.buffer_samples = 0, .in = 1}));
  EXPECT_FALSE(drawn_samples({.buffer_samples = 3, .in = 4}));
  EXPECT_FALSE(drawn_samples({.buffer_samples = 3, .in = 4, .out = 5}));
  EXPECT_FALSE(drawn_samples({.buffer_samples = ~std::uint64_t{0}, .in = 4}));
  EXPECT_TRUE(
      drawn_samples({.buffer_samples = 3, .in = ~std::uint64_t{0}, .out = ~std::uint64_t{2}}));
}

}  // namespace
}  // namespace millrace::wds
