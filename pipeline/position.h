// Position: where a pipeline stands, per stream; kilobytes, saved with the model in one checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wds/sample_stream.h"

namespace millrace::pipeline {

struct Position {
  std::uint32_t epoch = 0;
  /// Batches of this epoch already used.
  std::int64_t batches = 0;
  /// One a stream of this rank, in the order of the streams.
  std::vector<wds::StreamPosition> streams;

  std::string to_json() const;
  /// Throws: Corrupt.
  static Position from_json(const std::string& text);
};

}  // namespace millrace::pipeline
