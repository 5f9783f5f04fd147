// Messages: what travels through the graph, always blocks, never single samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "wds/sample_stream.h"

namespace millrace::pipeline::detail {

class OpenBatch;

/// Asks for the next block of a lane; an epoch other than the last one asked for begins that epoch.
struct ReadRequest {
  std::size_t lane = 0;
  std::uint32_t epoch = 0;
};

/// A block of a lane, or the end of its epoch, or the fault that ended it.
struct ReadResult {
  std::size_t lane = 0;
  std::uint32_t epoch = 0;
  wds::SampleBlock block = {};
  bool end = false;
  std::exception_ptr error = nullptr;
  /// The block's first sample is the one `skip` samples after `start`.
  std::shared_ptr<const wds::StreamPosition> start = nullptr;
  std::uint64_t skip = 0;

  /// Of the block's first sample, in its stream and epoch.
  std::uint64_t first_index() const { return (start ? start->samples_out : 0) + skip; }
};

/// A sample and the slot of its batch that it is to fill.
struct SlotSample {
  wds::Sample sample;
  std::uint32_t stream = 0;
  std::uint64_t index = 0;  ///< in its stream and epoch
  std::int64_t slot = 0;
};

/// Samples of one batch for one decode task.
struct DecodeBlock {
  std::shared_ptr<OpenBatch> batch;
  std::vector<SlotSample> samples;
  std::size_t num_bytes = 0;
};

/// What comes out of the graph, in the order of `sequence`.
struct Finished {
  enum class Kind { kBatch, kDropped, kMasked, kEpochEnd, kFault };
  std::uint64_t sequence = 0;
  Kind kind = Kind::kBatch;
  std::uint32_t epoch = 0;
  std::int64_t index = 0;                      ///< of the batch in its epoch
  std::int64_t repeat = 1;                     ///< kMasked: how many batches
  std::shared_ptr<OpenBatch> batch = nullptr;  ///< kBatch, kDropped
  std::exception_ptr error = nullptr;          ///< kFault
};

}  // namespace millrace::pipeline::detail
