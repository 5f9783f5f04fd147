// Position: where a pipeline stands, per stream; kilobytes, saved with the model in one checkpoint.
//
// Each batch has the position after it. A pipeline built with that position continues with the
// batch that would have come next, bit for bit.
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wds/sample_stream.h"

namespace millrace::pipeline {

struct Position {
  /// One stream of this process: start reading at `start` and drop the first `skip` samples.
  struct Stream {
    /// Shared by the positions of many batches; null: the stream's beginning.
    std::shared_ptr<const wds::StreamPosition> start;
    std::uint64_t skip = 0;
    bool ended = false;
  };

  std::uint32_t epoch = 0;
  /// Batches of this epoch already used.
  std::int64_t batches = 0;
  /// The stream of the next sample, an index into `streams`.
  std::uint32_t next_stream = 0;
  /// In the order of this process's streams. Empty: the epoch's beginning.
  std::vector<Stream> streams = {};
  /// A hash of all that fixes the order of samples. A pipeline refuses `streams` with another.
  std::uint64_t fingerprint = 0;

  /// The beginning of an epoch.
  static Position start_of(std::uint32_t epoch) { return {.epoch = epoch}; }

  std::string to_json() const;
  /// Throws: Corrupt.
  static Position from_json(const std::string& text);
};

}  // namespace millrace::pipeline
