// BatchMixer: does what MixUpOptions say, to batches whose samples are all there.
//
// Threads: const, from many at once, each with its own batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/codec.h"
#include "io/base/rng.h"
#include "pipeline/batch.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

class BatchMixer {
 public:
  /// Throws: InvalidArgument for options out of range, or fields that are not there or do not fit.
  BatchMixer(const PipelineOptions& options, const FieldDecoders& decoders);

  /// The arrays that it adds to each sample's; none if it is off.
  std::vector<FieldDecoder::Output> outputs() const;

  /// Mixes the batch's valid slots, in place; does nothing if it is off.
  void mix(Batch& batch) const;

 private:
  /// What a step draws.
  struct Drawn {
    double share = 1;                     ///< of a slot's own picture
    std::optional<decode::Box> box = {};  ///< that is the partner's; none: all is mixed
  };

  Drawn draw(const Batch& batch) const;
  Drawn draw_box(double share, KeyedRng& rng) const;
  /// `slots[i]` is mixed with `partners[i]`.
  void mix_pictures(const Batch& batch, const std::vector<std::size_t>& slots,
                    const std::vector<std::size_t>& partners, const Drawn& drawn) const;

  MixUpOptions options_;
  std::uint64_t seed_;
  std::int64_t batch_size_;
  std::size_t distance_;  ///< of a slot's partner before it: past the copies of its own sample
  decode::Layout layout_ = decode::Layout::kHWC;
  decode::ArraySpec picture_ = {};
};

}  // namespace millrace::pipeline::detail
