// Mixes: exact shares, every policy at a set's end, positions at every sample.
#include "wds/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "io/base/error.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using Strings = std::vector<std::string>;

/// Sets a, b, ... in shards of 7 samples; keys are "a/0", "a/1", ...
class Sets {
 public:
  explicit Sets(const std::vector<int>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      add(std::string(1, static_cast<char>('a' + i)), sizes[i]);
  }

  std::vector<MixPart> parts(const std::vector<double>& weights, std::int64_t buffer = 0,
                             std::uint32_t passes = 0) const {
    std::vector<MixPart> all;
    for (std::size_t i = 0; i < weights.size(); ++i)
      all.push_back(
          {.spec = {.shards = shards_[i],
                    .shuffle = {.shards = buffer > 0, .buffer_samples = buffer, .seed = 4},
                    .passes = passes,
                    .found = {.counts = counts_[i]}},
           .weight = weights[i]});
    return all;
  }
  std::vector<std::uint64_t> samples(std::uint32_t passes = 0) const {
    std::vector<std::uint64_t> all;
    for (const auto& counts : counts_)
      all.push_back(std::accumulate(counts->begin(), counts->end(), std::uint64_t{0}) *
                    std::max(1U, passes));
    return all;
  }
  const MemoryOpener& opener() const { return opener_; }

 private:
  void add(const std::string& name, int size) {
    Strings urls;
    std::vector<std::uint64_t> counts;
    for (int first = 0; first < size; first += 7) {
      TarBuilder tar;
      const int last = std::min(size, first + 7);
      for (int i = first; i < last; ++i) tar.file(name + "/" + std::to_string(i) + ".cls", "1");
      urls.push_back(name + std::to_string(first) + ".tar");
      counts.push_back(static_cast<std::uint64_t>(last - first));
      opener_.files[urls.back()] = tar.end().bytes();
    }
    shards_.push_back(std::make_shared<const Strings>(urls));
    counts_.push_back(std::make_shared<const std::vector<std::uint64_t>>(counts));
  }

  MemoryOpener opener_;
  std::vector<std::shared_ptr<const Strings>> shards_;
  std::vector<std::shared_ptr<const std::vector<std::uint64_t>>> counts_;
};

struct Mixed {
  const Sets& sets;
  std::vector<double> weights;
  MixEnd end = MixEnd::kStop;
  int streams = 1;
  std::int64_t buffer = 0;
  std::uint64_t samples = 0;  // of an epoch; 0: mix_length()
  std::uint32_t passes = 0;

  std::uint64_t length() const {
    return samples > 0 ? samples : mix_length(weights, sets.samples(passes), streams, end);
  }
  MixedStream open(int stream, FaultLedger& ledger, const StreamPosition* start = nullptr) const {
    const auto s = static_cast<std::uint64_t>(stream);
    const auto all = static_cast<std::uint64_t>(streams);
    return MixedStream({.parts = sets.parts(weights, buffer, passes),
                        .end = end,
                        .stream = stream,
                        .num_streams = streams,
                        .samples = (length() + all - 1 - s) / all},
                       start, sets.opener(), ledger);
  }
};

Strings drain_mix(MixedStream& stream) {
  Strings keys;
  for (SampleBlock block; stream.next(block);)
    for (const Sample& sample : block.samples) keys.push_back(sample.key);
  return keys;
}

/// The epoch's keys by slot.
Strings slots(const Mixed& mixed) {
  std::vector<Strings> streams;
  FaultLedger ledger;
  for (int s = 0; s < mixed.streams; ++s) {
    MixedStream stream = mixed.open(s, ledger);
    streams.push_back(drain_mix(stream));
  }
  Strings keys;
  for (std::size_t i = 0; i < mixed.length(); ++i) {
    const Strings& stream = streams[i % streams.size()];
    EXPECT_LT(i / streams.size(), stream.size()) << "slot " << i;
    keys.push_back(stream.at(i / streams.size()));
  }
  std::size_t total = 0;
  for (const Strings& stream : streams) total += stream.size();
  EXPECT_EQ(total, mixed.length());
  return keys;
}

std::string message_of(const std::vector<double>& weights) {
  try {
    whole_weights(weights);
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

TEST(MixWeights, AreWholeNumbersInTheSameProportions) {
  EXPECT_EQ(whole_weights(std::vector{0.7, 0.3}), (std::vector<std::uint64_t>{7, 3}));
  EXPECT_EQ(whole_weights(std::vector{2.0, 4.0, 6.0}), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(whole_weights(std::vector{5.0}), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(whole_weights(std::vector{1e-6, 1.0}), (std::vector<std::uint64_t>{1, 1'000'000}));
  const auto thirds = whole_weights(std::vector{1.0 / 3, 2.0 / 3});
  EXPECT_NEAR(static_cast<double>(thirds[1]) / static_cast<double>(thirds[0]), 2.0, 1e-5);
  for (const double wrong : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(message_of({0.5, wrong}), ::testing::HasSubstr("above 0")) << wrong;
  EXPECT_THAT(message_of({1e9, 1e-9}), ::testing::HasSubstr("millionth"));
  EXPECT_THAT(message_of({}), ::testing::HasSubstr("needs a set"));
}

TEST(MixTurns, KeepsEverySharePerfectlyInEveryPrefix) {
  const std::vector<std::vector<std::uint64_t>> cases = {
      {7, 3}, {1, 1}, {1, 99}, {5, 3, 2}, {90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {333'333, 666'667}};
  for (const auto& weights : cases) {
    MixTurns turns(weights, 0);
    const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    std::vector<double> taken(weights.size());
    for (int i = 1; i <= 10'000; ++i) {
      const std::size_t set = *turns.next();
      turns.take(set);
      taken[set] += 1;
      for (std::size_t w = 0; w < weights.size(); ++w) {
        const double exact = i * static_cast<double>(weights[w]) / static_cast<double>(sum);
        ASSERT_LT(std::abs(taken[w] - exact), weights.size() <= 3 ? 1.0 : 5.0) << i;
      }
    }
  }
}

TEST(Mix, EveryRoundOfEveryDivisionHasItsShares) {
  const Sets sets({900, 500});
  for (const int streams : {1, 2, 4, 6}) {
    const Strings keys =
        slots({.sets = sets, .weights = {0.7, 0.3}, .streams = streams, .buffer = 20});
    double first = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      first += keys[i][0] == 'a' ? 1 : 0;
      EXPECT_LT(std::abs(first - 0.7 * static_cast<double>(i + 1)), 1.0 + streams) << i;
    }
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size()) << "no repeats";
    EXPECT_GT(keys.size(), 1250U) << "900 / 0.7 = 1285 at most";
  }
}

TEST(Mix, DropReadsEverySampleOnceInEqualStreams) {
  const Sets sets({100, 31, 17});
  for (const int streams : {1, 3, 4}) {
    const Strings keys = slots({.sets = sets,
                                .weights = {1, 1, 2},
                                .end = MixEnd::kDrop,
                                .streams = streams,
                                .buffer = 9});
    EXPECT_EQ(keys.size(), 148U);
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 148U);
  }
}

TEST(Mix, RepeatReadsEachSetOnceAtLeastAndTheSmallOnesAnew) {
  const Sets sets({100, 10});
  for (const int streams : {1, 4}) {
    const Strings keys = slots({.sets = sets,
                                .weights = {0.5, 0.5},
                                .end = MixEnd::kRepeat,
                                .streams = streams,
                                .buffer = 8});
    std::map<std::string, int> times;
    for (const std::string& key : keys) ++times[key];
    EXPECT_EQ(times.size(), 110U);
    EXPECT_NEAR(static_cast<double>(keys.size()), 200, 2 * streams);
    EXPECT_GE(times["b/3"], 8);
  }
  const Strings many = slots(
      {.sets = sets, .weights = {0.5, 0.5}, .end = MixEnd::kRepeat, .streams = 2, .samples = 1001});
  EXPECT_EQ(many.size(), 1001U);
}

TEST(Mix, ASetIsAtItsEndAfterItsPasses) {
  const Sets sets({100, 5, 12});
  for (const int streams : {1, 4, 7, 24}) {
    for (const MixEnd end : {MixEnd::kStop, MixEnd::kRepeat, MixEnd::kDrop}) {
      std::map<std::string, int> times;
      for (const std::string& key : slots({.sets = sets,
                                    .weights = {2, 1, 1},
                                    .end = end,
                                    .streams = streams,
                                    .buffer = 6,
                                    .passes = 3}))
        ++times[key];
      if (end == MixEnd::kStop) {
        if (streams == 1) {
          EXPECT_EQ(times["b/3"], 3);
        }
        for (const auto& [key, count] : times) EXPECT_LE(count, 3) << key;
        continue;
      }
      ASSERT_EQ(times.size(), 117U);
      for (const auto& [key, count] : times)
        EXPECT_TRUE(end == MixEnd::kDrop ? count == 3 : count >= 3) << key << " " << streams;
      EXPECT_TRUE(end == MixEnd::kDrop || times["b/3"] >= 25) << "150 of 5 samples";
    }
  }
}

TEST(Mix, MorePassesThanCanBeCountedAreRefused) {
  const std::vector<double> weights = {0.7, 0.3};
  const std::vector<std::uint64_t> samples = {std::uint64_t{1} << 61U, 100};
  try {
    mix_length(weights, samples, 4, MixEnd::kRepeat);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(),
                ::testing::HasSubstr("more than a mix of these weights can count"));
  }
}

TEST(Mix, ResampledSetsHaveNoEndAndTheirShares) {
  const Sets sets({60, 21});
  std::vector<MixPart> parts = sets.parts({0.75, 0.25}, 9);
  for (MixPart& part : parts) {
    part.spec.resampled = true;
    part.spec.found.counts = nullptr;
  }
  const auto open = [&](const StreamPosition* start, FaultLedger& ledger) {
    return MixedStream({.parts = parts, .samples = MixedStream::kNoEnd}, start, sets.opener(),
                       ledger);
  };
  FaultLedger ledger;
  MixedStream stream = open(nullptr, ledger);
  std::map<char, int> of_set;
  Strings behind;
  StreamPosition at;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) at = stream.position();
    SampleBlock block;
    ASSERT_TRUE(stream.next(block));
    for (const Sample& sample : block.samples) {
      ++of_set[sample.key[0]];
      if (i >= 20) behind.push_back(sample.key);
    }
  }
  EXPECT_NEAR(of_set['a'], 3 * of_set['b'], 4);
  MixedStream again = open(&at, ledger);
  Strings keys;
  for (SampleBlock block; keys.size() < behind.size() && again.next(block);)
    for (const Sample& sample : block.samples) keys.push_back(sample.key);
  EXPECT_EQ(keys, behind);
}

TEST(Mix, TheSameSetTwiceIsShuffledTwice) {
  const Sets sets({60});
  std::vector<MixPart> parts = sets.parts({1}, 20);
  parts.push_back(parts.front());
  FaultLedger ledger;
  MixedStream stream({.parts = parts, .samples = 100}, nullptr, sets.opener(), ledger);
  const Strings keys = drain_mix(stream);
  Strings even;
  Strings odd;
  for (std::size_t i = 0; i < keys.size(); ++i) (i % 2 == 0 ? even : odd).push_back(keys[i]);
  EXPECT_NE(even, odd);
}

TEST(Mix, ContinuesAtEverySample) {
  const Sets sets({60, 25, 9});
  const std::vector<std::pair<MixEnd, std::uint32_t>> cases = {
      {MixEnd::kStop, 0}, {MixEnd::kRepeat, 0}, {MixEnd::kDrop, 0},
      {MixEnd::kStop, 3}, {MixEnd::kRepeat, 2}, {MixEnd::kDrop, 3}};
  for (const auto& [end, passes] : cases) {
    const Mixed mixed{.sets = sets,
                      .weights = {0.5, 0.3, 0.2},
                      .end = end,
                      .streams = 2,
                      .buffer = 10,
                      .passes = passes};
    FaultLedger ledger;
    MixedStream whole = mixed.open(1, ledger);
    const Strings keys = drain_mix(whole);
    MixedStream stream = mixed.open(1, ledger);
    StreamPosition before;
    std::size_t given = 0;
    for (SampleBlock block; stream.next(block);) {
      ASSERT_EQ(block.trail->size(), block.samples.size());
      for (std::size_t n = 1; n <= block.samples.size(); ++n) {
        StreamPosition position = before;
        block.trail->advance(position, n);
        EXPECT_EQ(position.samples_out, given + n);
        MixedStream again = mixed.open(1, ledger, &position);
        ASSERT_EQ(drain_mix(again),
                  Strings(keys.begin() + static_cast<std::ptrdiff_t>(given + n), keys.end()))
            << given + n;
      }
      given += block.samples.size();
      before = stream.position();
    }
    EXPECT_EQ(given, keys.size());
    const StreamPosition other{.parts = {StreamPosition{}}};
    EXPECT_THROW(mixed.open(0, ledger, &other), Error);
  }
}

}  // namespace
}  // namespace millrace::wds
