#include <gtest/gtest.h>

#include <numeric>

#include "wds/detail/python_random.h"
#include "wds/detail/shard_sequence.h"
#include "wds/detail/webdataset_shuffle.h"

namespace millrace::wds {
namespace {

using detail::buffer_shuffled;
using detail::PythonRandom;
using Strings = std::vector<std::string>;

Strings numbered_shards(int count) {
  Strings names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string joined(const Strings& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string shuffled_ten(std::uint64_t seed) {
  Strings names = numbered_shards(10);
  PythonRandom(seed).shuffle(std::span(names));
  return joined(names);
}

TEST(PythonRandom, ShufflesAsCPythonDoes) {
  EXPECT_EQ(shuffled_ten(0), "7 8 1 5 3 4 2 0 9 6");
  EXPECT_EQ(shuffled_ten(42), "7 3 2 8 5 6 9 4 0 1");
}

// random.Random(2**40 + 7).getrandbits(40), and so on.
TEST(PythonRandom, TakesWideSeedsAndGivesWideNumbers) {
  PythonRandom rng((std::uint64_t{1} << 40) + 7);
  EXPECT_EQ(rng.getrandbits(40), 822974591194U);
}

TEST(WebDatasetShuffle, PicksAsWebDatasetDoes) {
  EXPECT_EQ(joined(buffer_shuffled(numbered_shards(20), 5, 2, 0)),
            "1 2 0 4 8 6 9 7 10 11 14 3 16 15 13 17 5 18 19 12");
  EXPECT_EQ(joined(buffer_shuffled(numbered_shards(20), 1000, 100, 0)),
            "12 13 1 8 15 6 19 4 7 5 9 3 2 11 17 0 14 16 18 10");
  EXPECT_EQ(buffer_shuffled(numbered_shards(20), 0, 100, 0), numbered_shards(20));
}

// Drawn with make_seed(process * 1000 + worker, epoch, seed) = make_seed(1, 2, 3) = 1026.
TEST(ShardSequence, ResamplesAsWebDatasetDoes) {
  StreamSpec spec{.shards = std::make_shared<const Strings>(numbered_shards(10)),
                  .shuffle = {.seed = 3, .order = Order::kWebDataset},
                  .num_streams = 4,
                  .stream = 2,
                  .epoch = 2,
                  .resampled = true,
                  .processes = 2};
  detail::ShardSequence sequence(spec);  // stream 2 of 2 processes: process 0, worker 1
  PythonRandom expected(1026);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sequence.at(i)->url, std::to_string(expected.below(10)));
  }
  EXPECT_EQ(sequence.at(0)->url, std::to_string(PythonRandom(1026).below(10)));
}

TEST(ShardSequence, DetshuffleHasAnOrderForEachEpoch) {
  StreamSpec spec{.shards = std::make_shared<const Strings>(numbered_shards(30)),
                  .shuffle = {.shards = true, .seed = 5, .order = Order::kWebDataset}};
  const Strings first = stream_shards(spec);
  spec.epoch = 1;
  EXPECT_EQ(stream_shards(spec), first) << "WebDataset repeats its order";
  spec.shuffle.detshuffle = true;
  EXPECT_EQ(stream_shards(spec), buffer_shuffled(numbered_shards(30), 100, 100, 6));
}

TEST(ShardSequence, OwnOrderShufflesGloballyThenDivides) {
  StreamSpec spec{.shards = std::make_shared<const Strings>(numbered_shards(30)),
                  .shuffle = {.shards = true, .seed = 5}};
  const Strings whole = stream_shards(spec);
  EXPECT_NE(whole, numbered_shards(30));
  spec.num_streams = 4;
  for (spec.stream = 0; spec.stream < 4; ++spec.stream) {
    const Strings own = stream_shards(spec);
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i], whole[static_cast<std::size_t>(spec.stream) + 4 * i]);
    }
  }
  spec = {.shards = spec.shards, .shuffle = spec.shuffle, .epoch = 1};
  EXPECT_NE(stream_shards(spec), whole) << "every epoch has its own order";
}

}  // namespace
}  // namespace millrace::wds
