// Tape: a buffered ByteSource that a tar is read from, block by block and payload by payload.
//
// Small reads come from a recycled 256 KiB buffer; a large one goes from the source straight to
// where it is wanted. A region of consumed bytes can be kept in view, so that the header blocks
// that libarchive was fed can be looked at afterwards.
//
// Buffers: 256 KiB, or a region if that is larger. Threads: one at a time.
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
  /// `source` stands at `start` of the tar stream.
  Tape(std::unique_ptr<io::ByteSource> source, std::uint64_t start);

  /// The next `size` bytes, or fewer where the tape ends; they stay next. Valid until the next call
  /// of a non-const member.
  std::span<const std::byte> peek(std::size_t size);
  /// What of the next `size` bytes is buffered already.
  std::span<const std::byte> buffered(std::size_t size) const {
    return {buffer_.get() + begin_, std::min(size, end_ - begin_)};
  }
  /// Moves on by `size` bytes, which a peek() has shown.
  void consume(std::size_t size);
  /// Fills `into`. Throws: Truncated when the tape ends before.
  void read(std::span<std::byte> into);
  /// Wide gaps are not read where the source can leave them out. Throws: Truncated when the tape
  /// ends before.
  void skip(std::uint64_t size);

  /// From here on consumed bytes stay in view, until the next begin_region() or end_region().
  void begin_region() { region_ = begin_; }
  std::span<const std::byte> region() const;  // empty when none was begun
  void end_region() { region_.reset(); }

  std::uint64_t position() const { return position_; }
  /// Bytes from here to the end, when the source knows its size.
  std::optional<std::uint64_t> remaining() const;
  const io::ByteSource& source() const { return *source_; }

 private:
  bool refill(std::size_t wanted);
  void make_room(std::size_t wanted);
  void grow();
  [[noreturn]] void truncated(std::uint64_t missing) const;

  std::unique_ptr<io::ByteSource> source_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // of what was not consumed
  std::size_t end_ = 0;
  std::optional<std::size_t> region_;
  std::uint64_t position_;
  bool ended_ = false;
};

}  // namespace millrace::wds::detail
