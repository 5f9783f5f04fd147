// DecodeStage: fills the slots of a block, each from its own sample.
//
// Threads: decode() from any number at once; blocks of one batch touch different slots.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"

namespace millrace::pipeline::detail {

class DecodeStage {
 public:
  /// Everything borrowed outlives the stage.
  DecodeStage(const FieldDecoders& decoders, const BatchLayout& layout, Meters& meters,
              ByteGauge& encoded)
      : decoders_(decoders), layout_(layout), meters_(meters), encoded_(encoded) {}

  /// A sample's fault stays in its slot. Lets go of the block's samples. Throws: std::bad_alloc,
  /// which is nobody's fault but the machine's, and no policy skips.
  void decode(DecodeBlock& block) const;
  /// Makes decode() return after the sample it is at.
  void stop() { stopped_ = true; }

 private:
  void decode_sample(SlotSample& sample, OpenBatch& batch, std::int64_t slot) const;
  decode::Tidiness fill_fields(const SlotSample& sample, std::byte* buffer,
                               std::int64_t slot) const;

  const FieldDecoders& decoders_;
  const BatchLayout& layout_;
  Meters& meters_;
  ByteGauge& encoded_;
  std::atomic<bool> stopped_{false};
};

}  // namespace millrace::pipeline::detail
