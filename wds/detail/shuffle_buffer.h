// ShuffleBuffer: the shuffle buffer of one stream, between its shards and its blocks.
//
// In millrace's order it is filled to its limits (samples and payload bytes), then returns the one
// at a position drawn from (seed, epoch, stream, samples out). In WebDataset's order it follows
// WebDatasetShuffle.
//
// Buffers: payloads up to a limit; those beyond it that can be read again are set aside
// (set_aside.h), so that the order needs no memory for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "io/base/rng.h"
#include "wds/detail/set_aside.h"
#include "wds/detail/webdataset_shuffle.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

struct BufferedSample {
  Sample sample;
  std::uint32_t shard = 0;  ///< index into the stream's own list
  bool can_be_read_again = false;
  std::optional<SetAside> aside = {};  ///< then it has no fields
};

class ShuffleBuffer {
 public:
  explicit ShuffleBuffer(const StreamSpec& spec);
  /// With another limit for the payloads that are in memory.
  ShuffleBuffer(const StreamSpec& spec, std::size_t memory_bytes);

  /// Gathers samples from `read` (false at the end) and picks the stream's `index`-th, which may be
  /// set aside. Returns its place, which the last one takes; nullopt at the end. Throws: Exhausted
  /// if WebDataset's order, which has no byte limit of its own, exceeds buffer_bytes, and as
  /// `read`.
  std::optional<std::size_t> next(const std::function<bool(BufferedSample&)>& read,
                                  std::uint64_t index, BufferedSample& picked);

  /// Gathers samples before the first is picked, at most so many samples and bytes, and no more
  /// than next() would. Does nothing in WebDataset's order, whose picks depend on when samples
  /// come.
  void prefill(const std::function<bool(BufferedSample&)>& read, std::size_t samples,
               std::size_t bytes);

  /// Starts another pass over the samples. In WebDataset's order the draws start over too, as with
  /// its with_epoch(). Requires: the buffer is empty.
  void begin_pass();
  /// Restores the state after `samples_in` samples of this pass entered and `samples_out` left,
  /// with `held` remaining.
  void restore(std::vector<BufferedSample> held, std::uint64_t samples_in,
               std::uint64_t samples_out);
  const std::vector<BufferedSample>& held() const { return held_; }
  /// Of the payloads that are not set aside.
  std::size_t bytes_in_memory() const { return bytes_in_memory_; }
  /// Where held() came from: close together, as positions are taken often.
  const std::vector<StreamPosition::SampleRef>& refs() const { return refs_; }

 private:
  bool append(const std::function<bool(BufferedSample&)>& read);
  void gather(const std::function<bool(BufferedSample&)>& read);
  void fill(const std::function<bool(BufferedSample&)>& read, std::size_t samples,
            std::size_t bytes);
  std::size_t pick(std::uint64_t index);

  RngKey key_;
  ShuffleOptions options_;
  std::optional<WebDatasetShuffle> webdataset_;
  std::vector<BufferedSample> held_;
  std::vector<StreamPosition::SampleRef> refs_;
  std::size_t held_bytes_ = 0;
  std::size_t memory_bytes_;
  std::size_t bytes_in_memory_ = 0;
};

}  // namespace millrace::wds::detail
