// ZstdFrames: inspects a zstd stream as it passes, for what libarchive does not report: how much
// memory each frame's window takes, and whether the frame has a checksum.
//
// It walks from block to block without unpacking. Data that is not zstd is ignored. Threads: one at
// a time. Source: RFC 8878, 3.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::wds::detail {

class ZstdFrames {
 public:
  explicit ZstdFrames(std::uint64_t max_window) : max_window_(max_window) {}

  /// Takes the stream's next bytes. Throws: Exhausted if a frame's window exceeds the limit.
  void watch(std::span<const std::byte> bytes);
  /// Frames so far without a checksum of their content.
  std::uint64_t unguarded() const { return unguarded_; }

 private:
  enum class Part { kMagic, kSkippableSize, kDescriptor, kFrameHeader, kBlockHeader, kForeign };

  void expect(Part part, std::size_t bytes);
  void arrived();
  void read_magic();
  void read_descriptor();
  void read_frame_header();
  void read_block_header();
  std::uint64_t number(std::size_t at, std::size_t bytes) const;
  std::size_t size_bytes() const;  // of the frame's content size field
  std::size_t dictionary_bytes() const;

  std::uint64_t max_window_;
  Part part_ = Part::kMagic;
  std::size_t wanted_ = 4;
  std::size_t have_ = 0;
  std::uint64_t skip_ = 0;  // bytes before the part begins
  unsigned descriptor_ = 0;
  std::uint64_t unguarded_ = 0;
  std::array<std::byte, 16> held_{};
};

}  // namespace millrace::wds::detail
