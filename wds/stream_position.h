// StreamPosition: where a SampleStream stands, enough to continue with exactly the next sample.
// StreamTrail: how a position changes with each sample of a block.
//
// A position is as large as the shuffle buffer, so one is made only now and then; with the trails
// of the blocks since then it becomes the position after any sample of theirs, without reading.
//
// Threads: as values. A trail that a stream has returned does not change any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace millrace::wds {

/// What faults have cost a stream.
struct LostSamples {
  std::uint64_t samples = 0;
  /// Shards that were lost besides, whole or their rests, of which nobody knows how many samples
  /// they had.
  std::uint64_t shards = 0;
  bool more = false;  ///< an unknown number of others is lost too: those of shards, or all behind
  /// Of `samples`, those that a selection could not look at: they are not among those promised.
  std::uint64_t unselected = 0;

  /// Of those that were promised.
  std::uint64_t promised() const { return samples - unselected; }
  /// The larger of two accounts of the same stream, of which one may be older.
  LostSamples or_later(const LostSamples& other) const;
  LostSamples& operator+=(const LostSamples& other);
  friend bool operator==(const LostSamples&, const LostSamples&) = default;
};

struct StreamPosition {
  struct SampleRef {
    std::uint32_t shard = 0;   ///< index into the stream's own list of shards this epoch
    std::uint64_t offset = 0;  ///< Sample::offset
  };
  std::uint64_t samples_out = 0;  ///< returned so far
  std::uint64_t samples_in = 0;   ///< read from shards so far (keys the shuffle's choices)
  std::uint32_t shard = 0;        ///< the open shard, index into the stream's own list
  std::uint64_t offset = 0;       ///< tar offset of the next sample's first header in it
  /// Samples of earlier passes, if an epoch makes several passes over the shards.
  std::uint64_t earlier_passes = 0;
  LostSamples lost = {};                 ///< so far
  std::vector<SampleRef> buffered = {};  ///< the shuffle buffer, in order
  /// With ShuffleOptions::open_shards > 1: the open shards and the next sample's offset in each;
  /// then `shard` is the next one to open.
  std::vector<SampleRef> open = {};
  std::uint32_t turn = 0;  ///< place in `open` of the one to be read next
  /// Of a mix (mix.h): each set's own; of the members above only samples_out counts then.
  std::vector<StreamPosition> parts = {};

  /// Samples in the shuffle buffer, of a mix in all of them.
  std::size_t num_buffered() const;
};

class StreamTrail {
 public:
  /// A sample came into the shuffle buffer, behind the others.
  void enter(StreamPosition::SampleRef sample) { entered_.push_back(sample); }
  /// One left the buffer: that at `place`, which the last one takes. `after` is the stream's
  /// position then, but for `buffered`.
  void leave(std::size_t place, const StreamPosition& after);
  /// A sample was returned that no buffer held; otherwise as leave().
  void pass(const StreamPosition& after);

  /// Of a mix: a sample was returned that came from set `part`.
  void mix(std::size_t part) { order_.push_back(static_cast<std::uint32_t>(part)); }
  /// Of a mix: the next set's own trail.
  void add_part(std::shared_ptr<const StreamTrail> part) { parts_.push_back(std::move(part)); }

  /// Samples that were returned.
  std::size_t size() const { return parts_.empty() ? steps_.size() : order_.size(); }
  /// Turns the position before the block into that after its first `samples`. Requires: at most
  /// size(), and `position` is that after the block before.
  void advance(StreamPosition& position, std::size_t samples) const;

 private:
  /// A position without its lists, of which `entered` and `open` say where they end in the trail's.
  struct Step {
    std::uint64_t samples_out;
    std::uint64_t samples_in;
    std::uint64_t earlier_passes;
    LostSamples lost;
    std::uint64_t offset;
    std::uint32_t shard;
    std::uint32_t turn;
    std::uint32_t place;
    std::uint32_t entered;
    std::uint32_t open;
  };
  static constexpr std::uint32_t kNoPlace = 0xFFFF'FFFF;
  void add(std::uint32_t place, const StreamPosition& after);
  void advance_parts(StreamPosition& position, std::size_t samples) const;

  std::vector<Step> steps_;
  std::vector<StreamPosition::SampleRef> entered_;
  std::vector<StreamPosition::SampleRef> open_;
  std::vector<std::shared_ptr<const StreamTrail>> parts_;
  std::vector<std::uint32_t> order_;  ///< each sample's part
};

}  // namespace millrace::wds
