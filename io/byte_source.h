// ByteSource: where bytes come from: a file, an HTTP object, a pipe, standard input.
//
// read() gives a value (at least one byte), the end (zero), or a fault (an Error with the url and
// the offset). The end is only ever the true end of the object: a source that knows its size, or
// whose protocol tells, throws Truncated when bytes stop coming before it.
//
//   auto source = opener.open("https://host/a.tar");
//   while (const std::size_t got = source->read(buffer)) use(buffer.first(got));
//
// Threads: one at a time. The stop token given to the opener may be used from any thread: it makes
// a read that waits throw Cancelled within 100 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/bytes.h"

namespace millrace::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to `into.size()` bytes and returns how many, at least one; 0 is the end, and stays
  /// it. Waits where nothing has come yet. Requires: `into` is not empty. Throws: NotFound, Io,
  /// Truncated, Corrupt (the object changed), Cancelled; what was read before stays read.
  virtual std::size_t read(std::span<std::byte> into) = 0;
  /// Moves on by `bytes` without reading them and returns true, where that costs less than reading
  /// them; else returns false and does nothing. Never past the end, as far as that is known.
  /// Default: false.
  virtual bool skip(std::uint64_t /*bytes*/) { return false; }
  /// Offset in the object of the byte that the next read() gives.
  virtual std::uint64_t position() const = 0;
  /// The whole object's size in bytes, when it is known (for HTTP: after the first read()). Once
  /// known it does not change.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// The url as the user wrote it, without a query string: fit to be printed. Lifetime: the
  /// source's.
  virtual const std::string& url() const = 0;
};

/// Everything from here to the end. Throws: Exhausted when that is more than `limit_bytes`.
Bytes read_all(ByteSource& source, std::size_t limit_bytes);

}  // namespace millrace::io
