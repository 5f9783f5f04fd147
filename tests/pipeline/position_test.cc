#include "pipeline/position.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "tests/pipeline/fake_sources.h"
#include "wds/shuffle_draws.h"

namespace millrace::pipeline {
namespace {

using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;

FakeStreams uneven_streams() {
  return {.length = [](int stream, std::uint32_t epoch) {
    return 10 + 9 * stream + 5 * static_cast<int>(epoch);
  }};
}

PipelineOptions two_epochs() {
  PipelineOptions options = fake_options(3, 4);
  options.epochs.count = 2;
  return options;
}

TEST(Position, ResumesAfterAnyBatchAsIfNothingHadHappened) {
  PipelineOptions options = two_epochs();
  options.source = testing::fake_source(uneven_streams());
  EXPECT_EQ(testing::expect_same_after_any_resume(options).size(), 35U);
}

TEST(Position, IsRefusedByAPipelineOfAnotherOrder) {
  Pipeline whole = fake_pipeline(two_epochs(), uneven_streams());
  Batch batch;
  ASSERT_TRUE(whole.next(batch));
  PipelineOptions options = two_epochs();
  options.resume = batch.position;
  options.shuffle.seed = 8;
  EXPECT_THROW(fake_pipeline(options, uneven_streams()), Error);
  options.shuffle.seed = 7;
  options.resources.threads = 5;
  options.resources.prefetch = 9;
  EXPECT_NO_THROW(fake_pipeline(options, uneven_streams()));
}

TEST(Position, RoundTripsThroughJson) {
  const wds::StreamPosition start{.samples_out = 5,
                                  .samples_in = 9,
                                  .shard = 1,
                                  .offset = 4096,
                                  .buffered = {{0, 512}, {1, 1536}}};
  Position position{.epoch = 3, .process = 1, .processes = 3, .slots = 17, .turns = {1}};
  position.streams = {{std::make_shared<const wds::StreamPosition>(start), 12, false},
                      {nullptr, 0, true}};
  position.fingerprint = 0xFFFF'FFFF'FFFF'FFF1;
  const Position back = Position::from_json(position.to_json());
  EXPECT_EQ(back.to_json(), position.to_json());
  EXPECT_EQ(back.fingerprint, position.fingerprint);
  ASSERT_EQ(back.streams.size(), 2U);
  EXPECT_EQ(back.streams[0].start->buffered[1].shard, 1U);
  EXPECT_EQ(back.streams[0].start->buffered[1].offset, 1536U);
  EXPECT_EQ(back.streams[1].start, nullptr);
}

TEST(Position, SharesWhatFaultsCostAndLosesNoneOfIt) {
  Position whole{.epoch = 1, .slots = 60, .streams = std::vector<Position::Stream>(4)};
  whole.undecoded = {{ErrorCode::kTruncated, 1}, {ErrorCode::kCorrupt, 7}};
  std::vector<Position> parts;
  for (int process = 0; process < 4; ++process)
    parts.push_back(whole.share({.process = process, .processes = 4}, 1));
  EXPECT_EQ(parts[0].account().num_skipped(), 3U);
  EXPECT_EQ(parts[3].account().num_skipped(), 1U);
  EXPECT_EQ(Position::joined(parts).undecoded, whole.undecoded);
  EXPECT_EQ(Position::from_json(whole.to_json()).undecoded, whole.undecoded);
}

TEST(Position, RefusesLossesOfACodeThatThereIsNot) {
  const std::string text = Position{.undecoded = {{ErrorCode::kCorrupt, 7}}}.to_json();
  for (const std::string bad : {"\"Corrupted\":7", "\"Corrupt\":-7"}) {
    std::string changed = text;
    changed.replace(changed.find("\"Corrupt\":7"), 11, bad);
    EXPECT_THROW(Position::from_json(changed), Error) << changed;
  }
}

TEST(Position, KeepsTheBuffersOrderWhateverItsOffsets) {
  for (const std::uint64_t unit : {1U, 512U}) {
    wds::StreamPosition start;
    for (std::uint64_t i = 0; i < 100; ++i)
      start.buffered.push_back({static_cast<std::uint32_t>(i % 3), (7 * i) % 100 * unit});
    Position position;
    position.streams = {{std::make_shared<const wds::StreamPosition>(start), 0, false}};
    const auto back = Position::from_json(position.to_json()).streams[0].start->buffered;
    ASSERT_EQ(back.size(), start.buffered.size());
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(back[i].shard, start.buffered[i].shard) << i;
      EXPECT_EQ(back[i].offset, start.buffered[i].offset) << i;
    }
  }
}

/// A position whose buffers hold 10,000 photographs of 55 to 165 KB each, in shards of 5,000, after
/// as many picks. `limit` is the buffer's as the position says it.
Position of_photographs(std::uint64_t picks, const std::string& limit) {
  Position position{.epoch = 3};
  position.order = std::make_shared<const std::vector<std::pair<std::string, std::string>>>(
      std::vector<std::pair<std::string, std::string>>{{"shuffle", limit}, {"shuffle-seed", "7"}});
  for (std::uint32_t stream = 0; stream < 4; ++stream) {
    KeyedRng sizes({.seed = 1, .stream = stream});
    wds::StreamPosition start{.samples_out = picks};
    std::uint64_t offset = 0;
    const RngKey key{.seed = 7, .epoch = 3, .stream = stream, .purpose = wds::kSampleShuffle};
    for (std::uint64_t pick = 0; pick < picks; ++pick) {
      for (; start.buffered.size() < 10'000; ++start.samples_in) {
        const auto shard = static_cast<std::uint32_t>(start.samples_in / 5'000);
        if (start.samples_in % 5'000 == 0) offset = 0;
        start.buffered.push_back({shard, offset});
        offset += 512 * (109 + sizes.below(215));
      }
      const std::size_t place = wds::drawn_place(key, pick, start.buffered.size());
      start.buffered[place] = start.buffered.back();
      start.buffered.pop_back();
    }
    position.streams.push_back({std::make_shared<const wds::StreamPosition>(start), 0, false});
  }
  return position;
}

void expect_same_buffers(const Position& position) {
  const Position back = Position::from_json(position.to_json());
  ASSERT_EQ(back.streams.size(), position.streams.size());
  for (std::size_t i = 0; i < back.streams.size(); ++i) {
    const auto flat = [](const Position::Stream& stream) {
      std::vector<std::pair<std::uint32_t, std::uint64_t>> refs;
      for (const auto& ref : stream.start->buffered) refs.emplace_back(ref.shard, ref.offset);
      return refs;
    };
    EXPECT_EQ(flat(back.streams[i]), flat(position.streams[i])) << i;
  }
}

TEST(Position, OfFourBuffersOfTenThousandPhotographsIsSmall) {
  const Position position = of_photographs(20'000, "10000");
  EXPECT_LT(position.to_json().size(), 64U * 1024);
  expect_same_buffers(position);
}

// As after a fault, or where a buffer's limit in bytes was reached first.
TEST(Position, HasPlacesThatDoNotFollowFromTheDraws) {
  const Position position = of_photographs(100, "9000");
  EXPECT_LT(position.to_json().size(), 160'000U);
  expect_same_buffers(position);
}

/// A position of one stream whose buffer is `buffered`.
std::string with_buffer(const std::string& buffered) {
  return R"({"epoch":0,"process":0,"processes":1,"slots":0,"turns":[0],"fingerprint":0,)"
         R"("streams":[{"skip":0,"ended":false,"start":{"samples_out":0,"samples_in":0,"shard":0,"offset":0,"buffered":)" +
         buffered + "}}]}";
}

/// A position without streams.
std::string with_head(const std::string& head) {
  return "{" + head + R"(,"fingerprint":0,"streams":[]})";
}

TEST(Position, RefusesNumbersThatNoPipelineWrites) {
  EXPECT_NO_THROW(Position::from_json(
      with_head(R"("epoch":0,"process":0,"processes":1,"slots":0,"turns":[0])")));
  EXPECT_NO_THROW(Position::from_json(with_buffer(R"({"unit":512,"shards":[[0,[1,0],[1,2]]]})")));
  EXPECT_NO_THROW(
      Position::from_json(with_buffer(R"({"unit":512,"runs":[[0,1,7,0,0]],"bits":""})")));
  for (const std::string& text :
       {with_buffer(R"({"unit":512,"shards":[[0,[0,0],[1,2]]]})"),
        with_buffer(R"({"unit":512,"shards":[[0,[0,2],[1,2]]]})"),
        with_buffer(R"({"unit":512,"shards":[[0,[0],[1,2]]]})"),
        with_buffer(R"({"unit":512,"shards":[[0,[0],[-1]]]})"),
        with_buffer(R"({"unit":512,"shards":[[-1,[0],[1]]]})"),
        with_buffer(R"({"unit":0,"shards":[]})"),
        with_buffer(R"({"unit":512,"runs":[[0,3,0,0,1]],"bits":""})"),
        with_buffer(R"({"unit":512,"runs":[[0,3,0,0,1]],"bits":"000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,3,0,0,1]],"bits":"0000~"})"),
        with_buffer(R"({"unit":512,"runs":[[0,3,0,0,1]],"bits":"00000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,1000000000000,0,0,0]],"bits":"00000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,0,0,0,0]],"bits":"00000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,1,0,0,53]],"bits":"00000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,2,0,2251799813685248,0]],"bits":"00000"})"),
        with_buffer(R"({"unit":512,"runs":[[0,1,0,0,0]],"bits":"","drawn":[7,0,0,4,0,2,0]})"),
        with_buffer(R"({"unit":512,"runs":[[0,1,0,0,0]],"bits":"","drawn":[7,0,0,4]})"),
        with_buffer(R"({"unit":1,"shards":[[0,[0,1],[1152921504606846976,1152921504606846976]]]})"),
        with_head(R"("epoch":-1,"process":0,"processes":1,"slots":0,"turns":[0])"),
        with_head(R"("epoch":4294967295,"process":0,"processes":1,"slots":0,"turns":[0])"),
        with_head(R"("epoch":0,"process":1,"processes":1,"slots":0,"turns":[0])"),
        with_head(R"("epoch":0,"process":0,"processes":0,"slots":0,"turns":[0])"),
        with_head(R"("epoch":0,"process":0,"processes":1,"slots":-1,"turns":[0])"),
        with_head(R"("epoch":0,"process":0,"processes":1,"slots":1e300,"turns":[0])"),
        with_head(R"("epoch":0,"process":0,"processes":1,"slots":0,"turns":[])"),
        with_head(R"("epoch":0,"process":0,"processes":1,"slots":0,"turns":[1])"),
        with_head(R"("epoch":0,"process":0,"processes":1,"slots":0,"turns":[0,0])")})
    EXPECT_THROW(Position::from_json(text), Error) << text;
}

TEST(Position, RefusesInvalidText) {
  for (
      const char* text :
      {"", "{}", "[]", "null", R"({"epoch":"x"})",
       R"({"epoch":1,"process":0,"processes":1,"slots":1,"turns":[0],"fingerprint":1,"streams":[1]})"}) {
    try {
      Position::from_json(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << text;
    }
  }
}

/// As zlib packs it.
std::size_t packed_size(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::vector<Bytef> packed(size);
  compress(packed.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return size;
}

TEST(Position, AShuffleBufferIn64StreamsTakesLessThan64KiBPacked) {
  KeyedRng rng({.seed = 4});
  Position position{.epoch = 2, .slots = 640};
  for (int stream = 0; stream < 64; ++stream) {
    auto start = std::make_shared<wds::StreamPosition>();
    for (int i = 0; i < 10'000 / 64; ++i)
      start->buffered.push_back({static_cast<std::uint32_t>(rng.below(3)), 4608 * rng.below(600)});
    position.streams.push_back({.start = start, .skip = rng.below(64)});
  }
  EXPECT_LT(packed_size(position.to_json()), 64U * 1024);
}

}  // namespace
}  // namespace millrace::pipeline
