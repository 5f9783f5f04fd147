// Messages between the stages: always blocks, never single samples. `stream` is an index into the
// process's streams; only a SampleId has the stream's number among all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <variant>
#include <vector>

#include "decode/sample_id.h"
#include "pipeline/position.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline::detail {

class OpenRound;

/// Asks for the next block of a stream; an epoch other than the last one asked for begins that
/// epoch.
struct ReadRequest {
  std::size_t stream = 0;
  std::uint32_t epoch = 0;
};

/// A block of a stream, or the end of its epoch, or the fault that ended it.
struct BlockRead {
  std::size_t stream = 0;
  std::uint32_t epoch = 0;
  wds::SampleBlock block = {};
  bool end = false;
  std::exception_ptr error = nullptr;
  /// The block's first sample is the one `skip` samples after `start`.
  std::shared_ptr<const wds::StreamPosition> start = nullptr;
  std::uint64_t skip = 0;
  /// At the end: what faults have cost the stream in the epoch.
  wds::LostSamples lost = {};
  /// From `start` to the block's end, if the source leaves trails.
  std::shared_ptr<const Position::Trails> trails = nullptr;

  /// Of the block's first sample, in its stream and epoch.
  std::uint64_t first_index() const { return (start ? start->samples_out : 0) + skip; }
};

/// Reading may begin.
struct Started {};
/// A decode block of that many bytes has been decoded.
struct BlockDecoded {
  std::size_t num_bytes = 0;
};
/// A round has left the pipeline: another one may be opened.
struct PermitReturned {};
/// The rest of an epoch is not wanted.
struct EpochCut {
  std::uint32_t epoch = 0;
};
/// How many blocks are to be read ahead of each stream from now on.
struct ReadAhead {
  std::size_t blocks = 1;
};
/// An event of the merge.
using Event = std::variant<Started, std::shared_ptr<BlockRead>, BlockDecoded, PermitReturned,
                           EpochCut, ReadAhead>;

/// A sample that has its slot, and what keys its randomness.
struct SlotSample {
  wds::Sample sample;
  decode::SampleId id;
};

/// Samples for consecutive slots of one round: one decode task.
struct DecodeBlock {
  std::shared_ptr<OpenRound> round;
  std::int64_t first_slot = 0;
  std::vector<SlotSample> samples = {};
  std::size_t num_bytes = 0;
};

/// An output, in the order of `sequence`: sent to the deliver stage, and from there to the
/// consumer.
struct Output {
  enum class Kind {
    kRound,
    kDiscarded,  ///< a round that is not handed out: the short last one, or one cut by a fault
    kMasked,     ///< fully masked batches, up to EpochOptions::batches
    kEpochEnd,
    kFault,
  };
  std::uint64_t sequence = 0;
  Kind kind = Kind::kRound;
  std::uint32_t epoch = 0;
  std::int64_t index = 0;                              ///< of the first batch
  std::int64_t repeat = 1;                             ///< kMasked: how many batches
  std::shared_ptr<OpenRound> round = nullptr;          ///< kRound, kDiscarded
  std::shared_ptr<const Position> position = nullptr;  ///< kMasked: of the last sample
  std::exception_ptr error = nullptr;                  ///< kFault
};

}  // namespace millrace::pipeline::detail
