// The layout of images in a plan.
//
// Threads: from any.
#pragma once

#include <cstdint>

#include "trainer/nn/graph.h"
#include "trainer/ops/detail/instructions.h"

namespace millrace::trainer::ops {

/// (N, C / block, H, W, block), or channels-last, (N, H, W, C), which is one block of all channels.
struct ImageLayout {
  static constexpr std::int64_t kAllChannels = 0;
  std::int64_t block = 16;  ///< channels, or kAllChannels

  bool channels_last() const { return block == kAllChannels; }
  std::int64_t block_of(std::int64_t channels) const { return channels_last() ? channels : block; }
  std::int64_t blocks_of(std::int64_t channels) const {
    return (channels + block_of(channels) - 1) / block_of(channels);
  }
  /// Channels with the last block's padding.
  std::int64_t padded(std::int64_t channels) const {
    return blocks_of(channels) * block_of(channels);
  }
};

/// Channels-last with AMX, if arrays are bf16 and most of the convolutions' work is in those of 16
/// channels or more; else blocks, of 16 channels with AVX-512 and of 8 with less.
/// MILLRACE_IMAGE_LAYOUT=channels_last (or blocks) decides otherwise. Throws: InvalidArgument for
/// another word there.
ImageLayout image_layout(const nn::Graph& graph, bool bfloat16, Isa isa = usable_isa());

}  // namespace millrace::trainer::ops
