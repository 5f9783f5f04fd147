// DecodeStage: fills the slots of a block, each from its own sample.
//
// Threads: decode() from any number at once; blocks of one batch touch different slots.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/detail/batch_layout.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"

namespace millrace::pipeline::detail {

class DecodeStage {
 public:
  /// Everything borrowed outlives the stage.
  DecodeStage(const BatchLayout& layout, std::uint64_t seed, Meters& meters, ByteGauge& encoded)
      : layout_(layout), seed_(seed), meters_(meters), encoded_(encoded) {}

  /// A sample's fault stays in its slot. Lets go of the block's samples. Throws: std::bad_alloc,
  /// which is nobody's fault but the machine's, and no policy skips.
  void decode(DecodeBlock& block) const;
  /// Makes decode() return after the sample it is at.
  void stop() { stopped_ = true; }

 private:
  void decode_sample(OpenBatch& batch, SlotSample& item) const;

  const BatchLayout& layout_;
  const std::uint64_t seed_;
  Meters& meters_;
  ByteGauge& encoded_;
  std::atomic<bool> stopped_{false};
};

}  // namespace millrace::pipeline::detail
