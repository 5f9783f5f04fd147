// StreamCursor: a stream's samples one at a time; blocks are read on demand.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <utility>

#include "wds/sample_stream.h"

namespace millrace::tools {

class StreamCursor {
 public:
  explicit StreamCursor(wds::SampleStream stream) : stream_(std::move(stream)) {}

  /// Whether next() would have to read.
  bool needs_block() const { return !ended_ && used_ == block_.samples.size(); }
  /// Reads the next block. Requires: needs_block(). Throws: as SampleStream::next().
  void refill() {
    used_ = 0;
    ended_ = !stream_.next(block_);
    if (ended_) block_ = {};
  }
  /// Whether the stream has ended; known only after a refill() found no block.
  bool ended() const { return ended_; }
  /// The next sample; null at the end. Lifetime: until the next refill(). Throws: as refill().
  const wds::Sample* next() {
    if (needs_block()) refill();
    return ended_ ? nullptr : &block_.samples[used_++];
  }

 private:
  wds::SampleStream stream_;
  wds::SampleBlock block_;
  std::size_t used_ = 0;
  bool ended_ = false;
};

}  // namespace millrace::tools
