// The merge by itself: what it sends to its sink after which events.
#include "pipeline/detail/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::number_field;
using Kind = Output::Kind;

constexpr std::size_t kSampleBytes = 10;

/// A merge, all that it sends, and the stages around it imitated by the test.
class Bench : public Merge::Sink {
 public:
  explicit Bench(MergeOptions options, const Position& start = {})
      : decoders_(compile_fields({number_field()})),
        layout_(decoders_, options.batch.size),
        pool_(layout_.num_bytes(), 8),
        merge_(std::move(options), start, layout_, pool_, *this) {
    merge_.handle(Started{});
  }

  void read(const ReadRequest& request) override {
    reads.push_back(std::to_string(request.stream) + "@" + std::to_string(request.epoch));
  }
  void decode(const std::shared_ptr<DecodeBlock>& block) override { blocks.push_back(block); }
  void deliver(const Output& output) override { outputs.push_back(output); }
  void drop(std::size_t samples, std::size_t bytes) override {
    dropped_samples += samples;
    dropped_bytes += bytes;
  }

  void handle(const Event& event) { merge_.handle(event); }
  /// A block of `count` samples of a stream, from its `first` one on.
  void give(std::size_t stream, std::size_t count, std::uint64_t first = 0,
            std::uint32_t epoch = 0) {
    BlockRead read{.stream = stream, .epoch = epoch, .skip = first};
    for (std::uint64_t i = first; i < first + count; ++i)
      read.block.add({.key = std::to_string(stream) + "/" + std::to_string(i),
                      .fields = {{"bin", io::Bytes::copy_of(std::string(kSampleBytes, 'x'))}}});
    merge_.handle(std::make_shared<BlockRead>(std::move(read)));
  }
  void end(std::size_t stream, std::uint32_t epoch = 0) {
    merge_.handle(
        std::make_shared<BlockRead>(BlockRead{.stream = stream, .epoch = epoch, .end = true}));
  }
  void fail(std::size_t stream) {
    merge_.handle(std::make_shared<BlockRead>(BlockRead{
        .stream = stream, .error = std::make_exception_ptr(Error(ErrorCode::kTruncated, "cut"))}));
  }

  /// "stream/index" of each sample that was sent to be decoded, a "|" between rounds.
  std::string sent() const {
    std::string text;
    const OpenRound* round = nullptr;
    for (const auto& block : blocks) {
      if (round != nullptr && block->round.get() != round) text += "| ";
      round = block->round.get();
      for (const SlotSample& sample : block->samples) text += sample.sample.key + " ";
    }
    return text;
  }
  /// Decodes the blocks that were sent since the last call.
  void decode_all() {
    for (; num_decoded_ < blocks.size(); ++num_decoded_) {
      DecodeBlock& block = *blocks[num_decoded_];
      std::int64_t slot = block.first_slot;
      for (const SlotSample& sample : block.samples) block.round->fill(slot++, sample.sample.key);
      const auto round = block.round;
      if (round->release(static_cast<std::int64_t>(block.samples.size()))) deliver(round->output());
      merge_.handle(BlockDecoded{block.num_bytes});
    }
  }
  /// The kinds of the outputs in the order of their sequence, which has no gap.
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds(outputs.size());
    for (const Output& output : outputs) kinds.at(output.sequence) = output.kind;
    return kinds;
  }
  const Output& output(std::uint64_t sequence) const {
    return *std::ranges::find(outputs, sequence, &Output::sequence);
  }

  std::vector<std::string> reads;  ///< "stream@epoch"
  std::vector<std::shared_ptr<DecodeBlock>> blocks;
  std::vector<Output> outputs;
  std::size_t dropped_samples = 0;
  std::size_t dropped_bytes = 0;

 private:
  std::size_t num_decoded_ = 0;
  FieldDecoders decoders_;
  BatchLayout layout_;
  BatchPool pool_;
  Merge merge_;
};

MergeOptions options(std::size_t streams, std::int64_t batch_size) {
  MergeOptions options{
      .stream_numbers = {}, .batch = {.size = batch_size}, .decode_bytes = 1 << 20, .permits = 8};
  for (std::size_t i = 0; i < streams; ++i)
    options.stream_numbers.push_back(static_cast<int>(3 * i + 1));
  return options;
}

TEST(Merge, TakesStreamsInTurnAndNumbersTheirSamples) {
  Bench bench(options(3, 4));
  bench.give(2, 1, 20);
  bench.give(1, 3, 10);
  EXPECT_THAT(bench.blocks, IsEmpty()) << "the first slot is stream 0's";
  bench.give(0, 2);
  EXPECT_EQ(bench.sent(), "0/0 1/10 2/20 0/1 | 1/11 ");
  const SlotSample& sample = bench.blocks.back()->samples[0];
  EXPECT_EQ(sample.id.stream, 4U);
  EXPECT_EQ(sample.id.index, 11U);
  EXPECT_EQ(bench.blocks.back()->first_slot, 0);
}

MergeOptions for_devices(int devices, std::size_t streams, std::int64_t batch_size) {
  MergeOptions given = options(streams, batch_size);
  given.split.topology.devices = devices;
  return given;
}

/// The keys of each batch of a round, "" for masked slots.
std::vector<std::vector<std::string>> keys_of(const Output& output) {
  std::vector<std::vector<std::string>> keys;
  for (const Batch& batch : output.round->batches()) keys.push_back(batch.keys);
  return keys;
}

TEST(Merge, GivesTheSlotsOfARoundToItsBatchesInTurn) {
  Bench bench(for_devices(2, 3, 3));
  for (const std::size_t stream : {0U, 1U, 2U}) bench.give(stream, 2);
  bench.decode_all();
  ASSERT_THAT(bench.kinds(), ElementsAre(Kind::kRound));
  EXPECT_THAT(keys_of(bench.output(0)),
              ElementsAre(ElementsAre("0/0", "2/0", "1/1"), ElementsAre("1/0", "0/1", "2/1")));
  const auto& batches = bench.output(0).round->batches();
  EXPECT_EQ(batches[1].index, 1);
  EXPECT_EQ(batches[1].slots.first, 1);
  EXPECT_EQ(batches[1].slots.stride, 2);
  EXPECT_EQ(batches[0].position->slots, 0) << "in the middle of the round";
  EXPECT_EQ(batches[0].position->round.taken, 1);
  EXPECT_EQ(batches[1].position->slots, 6);
  EXPECT_EQ(batches[1].position->round.taken, 0);
}

TEST(Merge, ALastRoundIsMaskedEvenlyCutOrDiscarded) {
  for (const auto& [batch, kind, sizes] :
       {std::tuple(BatchOptions{.size = 4}, Kind::kRound, std::vector{4, 4, 4}),
        std::tuple(BatchOptions{.size = 4, .uneven = Uneven::kPartial}, Kind::kRound,
                   std::vector{2, 1, 1}),
        std::tuple(BatchOptions{.size = 4, .uneven = Uneven::kDrop}, Kind::kDiscarded,
                   std::vector{4, 4, 4})}) {
    MergeOptions given = for_devices(3, 1, 4);
    given.batch = batch;
    Bench bench(given);
    bench.give(0, 16);
    bench.end(0);
    bench.decode_all();
    EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, kind, Kind::kEpochEnd));
    EXPECT_EQ(bench.output(1).index, 3);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(bench.output(1).round->batches()[i].size, sizes[i]) << i;
    if (kind == Kind::kDiscarded) continue;
    EXPECT_EQ(keys_of(bench.output(1))[0][1], "0/15");
    EXPECT_EQ(bench.output(1).round->num_valid(), 4);
    EXPECT_EQ(bench.output(1).round->batches()[2].position->slots, 24);
  }
}

TEST(Merge, ABatchWithoutASlotOfARoundHasNoBuffer) {
  Bench bench(for_devices(3, 1, 2));
  bench.give(0, 2);
  bench.end(0);
  bench.decode_all();
  const auto& batches = bench.output(0).round->batches();
  EXPECT_TRUE(batches[1].owner);
  EXPECT_FALSE(batches[2].owner);
  EXPECT_EQ(batches[2].num_valid, 0);
}

TEST(Merge, ARoundIsCutAtTheFirstFaultInTheOrderOfItsSlots) {
  Bench bench(for_devices(2, 1, 4));
  bench.give(0, 8);
  const auto round = bench.blocks.at(0)->round;
  for (std::int64_t slot = 0; slot < 8; ++slot) {
    if (slot == 3 || slot == 6)
      round->fault(slot, Error(ErrorCode::kCorrupt, std::to_string(slot)));
    else
      round->fill(slot, std::to_string(slot));
  }
  ASSERT_TRUE(round->release(8));
  EXPECT_EQ(round->num_valid(), 6);
  EXPECT_EQ(round->faults().front().slot, 3);
  round->cut_at_first_fault();
  EXPECT_THAT(round->batches()[0].keys, ElementsAre("0", "2", "", ""));
  EXPECT_THAT(round->batches()[1].keys, ElementsAre("1", "", "", ""));
  EXPECT_EQ(round->num_valid(), 3);
}

TEST(Merge, APromisedNumberOfBatchesMayEndWithinARound) {
  MergeOptions promised = for_devices(2, 1, 2);
  promised.epochs.batches = 3;
  Bench bench(promised);
  bench.give(0, 20);
  bench.decode_all();
  EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, Kind::kRound, Kind::kEpochEnd));
  EXPECT_THAT(keys_of(bench.output(1)), ElementsAre(ElementsAre("0/4", "0/5")));
}

TEST(Merge, ContinuesWithoutTheStreamsThatEnd) {
  Bench bench(options(2, 8));
  bench.give(0, 1);
  bench.give(1, 3);
  bench.end(0);
  EXPECT_EQ(bench.sent(), "0/0 1/0 1/1 1/2 ");
}

TEST(Merge, ReadsAheadAsFarAsItMay) {
  Bench bench(options(2, 8));
  EXPECT_THAT(bench.reads, ElementsAre("0@0", "1@0"));
  bench.give(1, 2);
  bench.give(1, 2, 2);
  EXPECT_THAT(bench.reads, ElementsAre("0@0", "1@0", "1@0")) << "two blocks are ready";
  bench.give(0, 3);
  EXPECT_THAT(bench.reads, ElementsAre("0@0", "1@0", "1@0", "0@0", "1@0"));
}

TEST(Merge, ReadsTheNextEpochAsSoonAsAStreamEndsButNoneAfterTheLast) {
  MergeOptions two = options(2, 8);
  two.epochs.count = 2;
  Bench bench(two);
  bench.end(0);
  EXPECT_THAT(bench.reads, ElementsAre("0@0", "1@0", "0@1"));
  bench.end(0, 1);
  EXPECT_THAT(bench.reads, ElementsAre("0@0", "1@0", "0@1"));
}

TEST(Merge, OpensABatchForEachPermit) {
  MergeOptions one = options(1, 2);
  one.permits = 1;
  Bench bench(one);
  bench.give(0, 6);
  EXPECT_EQ(bench.sent(), "0/0 0/1 ");
  bench.decode_all();
  EXPECT_EQ(bench.sent(), "0/0 0/1 ");
  bench.handle(PermitReturned{});
  EXPECT_EQ(bench.sent(), "0/0 0/1 | 0/2 0/3 ");
}

TEST(Merge, HoldsBackWhatDecodingHasNoRoomFor) {
  MergeOptions narrow = options(1, 2);
  narrow.decode_bytes = 2 * kSampleBytes;
  Bench bench(narrow);
  bench.give(0, 6);
  EXPECT_EQ(bench.sent(), "0/0 0/1 ");
  bench.handle(BlockDecoded{2 * kSampleBytes});
  EXPECT_EQ(bench.sent(), "0/0 0/1 | 0/2 0/3 ");
}

TEST(Merge, ABatchIsDeliveredWhenItsLastBlockIsDecodedWhicheverThatIs) {
  Bench bench(options(1, 100));
  bench.give(0, 64);
  bench.give(0, 36, 64);
  ASSERT_EQ(bench.blocks.size(), 2U);
  EXPECT_EQ(bench.blocks[1]->first_slot, 64);
  std::swap(bench.blocks[0], bench.blocks[1]);
  bench.decode_all();
  ASSERT_THAT(bench.kinds(), ElementsAre(Kind::kRound));
  EXPECT_EQ(bench.outputs[0].round->num_valid(), 100);
}

TEST(Merge, EndsAnEpochWithAShortBatchMaskedLeftOutOrDiscarded) {
  for (const auto& [batch, kind, size] :
       {std::tuple(BatchOptions{.size = 4}, Kind::kRound, 4),
        std::tuple(BatchOptions{.size = 4, .uneven = Uneven::kPartial}, Kind::kRound, 3),
        std::tuple(BatchOptions{.size = 4, .uneven = Uneven::kDrop}, Kind::kDiscarded, 4)}) {
    MergeOptions given = options(1, 4);
    given.batch = batch;
    Bench bench(given);
    bench.give(0, 7);
    bench.end(0);
    bench.decode_all();
    EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, kind, Kind::kEpochEnd));
    EXPECT_EQ(bench.output(1).index, 1);
    EXPECT_EQ(bench.output(1).round->batches().front().size, size);
    EXPECT_EQ(bench.dropped_samples, kind == Kind::kDiscarded ? 3U : 0U);
    EXPECT_EQ(bench.dropped_bytes, 0U) << "they are decoded all the same";
  }
}

TEST(Merge, ABatchThatIsDecodedBeforeItsEpochEndsIsDeliveredThen) {
  Bench bench(options(1, 4));
  bench.give(0, 2);
  bench.decode_all();
  EXPECT_THAT(bench.outputs, IsEmpty());
  bench.end(0);
  EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, Kind::kEpochEnd));
}

TEST(Merge, KeepsAPromisedNumberOfBatches) {
  MergeOptions promised = options(1, 2);
  promised.epochs = {.count = 2, .batches = 3};
  Bench bench(promised);
  bench.give(0, 2);
  bench.end(0);  // epoch 0 has one batch
  bench.give(0, 20, 0, 1);
  bench.decode_all();
  EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, Kind::kMasked, Kind::kEpochEnd, Kind::kRound,
                                         Kind::kRound, Kind::kRound, Kind::kEpochEnd));
  EXPECT_EQ(bench.output(1).index, 1);
  EXPECT_EQ(bench.output(1).repeat, 2);
  EXPECT_EQ(bench.output(5).epoch, 1U);
  EXPECT_EQ(bench.output(5).index, 2);
}

TEST(Merge, SamplesLostThatWereNotPromisedExcuseNoOthers) {
  for (const std::uint64_t unselected : {0U, 1U, 2U}) {
    MergeOptions promised = options(1, 2);
    promised.own_samples = 4;
    Bench bench(promised);
    bench.give(0, 3);
    bench.handle(std::make_shared<BlockRead>(
        BlockRead{.stream = 0, .end = true, .lost = {.samples = 2, .unselected = unselected}}));
    bench.decode_all();
    EXPECT_EQ(bench.kinds().back(), unselected < 2 ? Kind::kEpochEnd : Kind::kFault) << unselected;
  }
}

TEST(Merge, DropsWhatWasReadOfAnEpochThatIsCut) {
  MergeOptions two = options(2, 4);
  two.epochs.count = 2;
  Bench bench(two);
  bench.give(0, 5);
  bench.give(1, 2);
  EXPECT_EQ(bench.sent(), "0/0 1/0 0/1 1/1 | 0/2 ");
  bench.handle(EpochCut{0});
  EXPECT_EQ(bench.dropped_samples, 2U) << "0/3 and 0/4";
  bench.give(1, 9, 2);  // the read was under way
  EXPECT_EQ(bench.dropped_samples, 2U + 9U);
  EXPECT_EQ(bench.dropped_bytes, (2 + 9) * kSampleBytes);
  bench.give(0, 2, 0, 1);
  bench.give(1, 2, 0, 1);
  bench.handle(EpochCut{0});  // already ended
  EXPECT_THAT(bench.sent(), ::testing::EndsWith("| 0/0 1/0 0/1 1/1 "));
}

TEST(Merge, AFaultEndsEverythingBehindTheSamplesBeforeIt) {
  Bench bench(options(2, 4));
  bench.give(0, 5);
  bench.give(1, 2);
  bench.fail(1);
  bench.decode_all();
  EXPECT_EQ(bench.sent(), "0/0 1/0 0/1 1/1 | 0/2 ");
  EXPECT_THAT(bench.kinds(), ElementsAre(Kind::kRound, Kind::kDiscarded, Kind::kFault));
  EXPECT_THROW(std::rethrow_exception(bench.output(2).error), Error);
  bench.give(0, 5, 5);
  bench.handle(PermitReturned{});
  EXPECT_EQ(bench.outputs.size(), 3U);
}

TEST(Merge, PositionsHoldTheNextStreamAndEachStreamsPosition) {
  Bench bench(options(3, 4));
  for (const std::size_t stream : {0U, 1U, 2U}) bench.give(stream, 2);
  bench.decode_all();
  const Position position = *bench.outputs.at(0).round->batches().back().position;
  EXPECT_EQ(position.slots, 4);
  EXPECT_THAT(position.turns, ElementsAre(1));
  std::vector<std::uint64_t> used;
  for (const Position::Stream& stream : position.streams) used.push_back(stream.skip);
  EXPECT_THAT(used, ElementsAre(2, 1, 1));

  Bench resumed(options(3, 4), position);
  resumed.give(0, 1, 2);
  resumed.give(1, 1, 1);
  resumed.give(2, 1, 1);
  EXPECT_EQ(resumed.sent(), "1/1 2/1 0/2 ");
  EXPECT_EQ(resumed.blocks[0]->samples[0].id.index, 1U);
}

TEST(Merge, AStreamThatHadEndedReadsTheNextEpoch) {
  Position position{.epoch = 4};
  position.streams = {{nullptr, 0, true}, {nullptr, 3, false}};
  MergeOptions endless = options(2, 4);
  endless.epochs.count = 0;
  const Bench bench(endless, position);
  EXPECT_THAT(bench.reads, ElementsAre("0@5", "1@4"));
}

}  // namespace
}  // namespace millrace::pipeline::detail
