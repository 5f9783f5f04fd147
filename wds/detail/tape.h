// Tape: a buffered ByteSource from which a tar is read, block by block and payload by payload.
//
// Small reads come from a reused buffer, usually of 256 KiB; a large one goes from the source
// directly to its destination. A region of consumed bytes can be kept, so that the header blocks
// that libarchive was fed can be inspected afterwards.
//
// Buffers: that buffer, or the region if that is larger. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/byte_source.h"

namespace millrace::wds::detail {

class Tape {
 public:
  static constexpr std::size_t kUsualBytes = std::size_t{256} * 1024;
  /// From this size on, an extra read call costs less than copying through the buffer.
  static constexpr std::size_t kDirectBytes = std::size_t{32} * 1024;

  /// `source` is positioned at offset `start` of the tar stream. `buffer_bytes` are read at once.
  Tape(std::unique_ptr<io::ByteSource> source, std::uint64_t start,
       std::size_t buffer_bytes = kUsualBytes);

  /// The next `size` bytes, or fewer at the tape's end, without consuming them. Lifetime: until the
  /// next call of a non-const member.
  std::span<const std::byte> peek(std::size_t size);
  /// The part of the next `size` bytes that is already buffered.
  std::span<const std::byte> buffered(std::size_t size) const {
    return {buffer_.get() + begin_, std::min(size, end_ - begin_)};
  }
  /// Consumes `size` bytes that a peek() has returned.
  void consume(std::size_t size);
  /// Fills `into`. Throws: Truncated if the tape ends before, and as ByteSource::read().
  void read(std::span<std::byte> into) { read(into, into.size()); }
  /// Fills the first `wanted` bytes of `room`. A large read takes along what follows, as much as
  /// the rest of `room` holds, which is buffered then: one call for a payload and the header after
  /// it. Requires: wanted <= room.size().
  void read(std::span<std::byte> room, std::size_t wanted);
  /// Reads up to `into.size()` bytes and returns how many; 0 at the tape's end.
  std::size_t read_some(std::span<std::byte> into);
  /// Skips `size` bytes; wide gaps are not read if the source can skip. Throws: Truncated if the
  /// tape ends before, and as ByteSource::read().
  void skip(std::uint64_t size);

  /// From here on consumed bytes are kept, until the next begin_region() or end_region().
  void begin_region() { region_ = begin_; }
  std::span<const std::byte> region() const;  // empty if there is none
  void end_region() { region_.reset(); }

  std::uint64_t position() const { return position_; }
  /// Bytes from here to the end; nullopt if the source does not know its size.
  std::optional<std::uint64_t> remaining() const;
  const io::ByteSource& source() const { return *source_; }

 private:
  std::size_t read_directly(std::span<std::byte> into);
  void put_back(std::span<const std::byte> data);
  bool refill(std::size_t wanted);
  void make_room(std::size_t wanted);
  void grow();
  [[noreturn]] void truncated(std::uint64_t missing) const;

  std::unique_ptr<io::ByteSource> source_;
  std::size_t buffer_bytes_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // of the bytes not yet consumed
  std::size_t end_ = 0;
  std::optional<std::size_t> region_;
  std::uint64_t position_;
  bool ended_ = false;
};

}  // namespace millrace::wds::detail
