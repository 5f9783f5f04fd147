// DecodeStage: fills the slots of a block, each from its own sample.
//
// Threads: decode() from any number at once; blocks of one round touch different slots.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"
#include "pipeline/detail/open_round.h"

namespace millrace::pipeline::detail {

class DecodeStage {
 public:
  /// Everything borrowed outlives the stage.
  DecodeStage(const FieldDecoders& decoders, const RaggedDecoders& ragged,
              const BatchLayout& layout, Meters& meters, ByteGauge& encoded)
      : decoders_(decoders), ragged_(ragged), layout_(layout), meters_(meters), encoded_(encoded) {}

  /// Fills the block's slots and releases its samples. A sample's fault is kept in its slot.
  /// Throws: std::bad_alloc, to which no fault policy applies.
  void decode(DecodeBlock& block) const;
  /// Makes decode() return after its current sample.
  void stop() { stopped_ = true; }

 private:
  void decode_sample(SlotSample& sample, OpenRound& round, std::int64_t slot) const;
  std::vector<io::Bytes> ragged_values(const wds::Sample& sample) const;
  decode::Tidiness fill_fields(const SlotSample& sample, const OpenRound::Place& place) const;

  const FieldDecoders& decoders_;
  const RaggedDecoders& ragged_;
  const BatchLayout& layout_;
  Meters& meters_;
  ByteGauge& encoded_;
  std::atomic<bool> stopped_{false};
};

}  // namespace millrace::pipeline::detail
