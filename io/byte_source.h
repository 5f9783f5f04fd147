// ByteSource: a source of bytes: a file, an HTTP object, a pipe, standard input.
//
// read() returns a value (at least one byte), the end (zero), or throws an Error with the url and
// the offset. Zero always means the true end of the object: a source that knows its size, or whose
// protocol reveals it, throws Truncated if the bytes stop before it.
//
//   auto source = opener.open("https://host/a.tar");
//   while (const std::size_t got = source->read(buffer)) use(buffer.first(got));
//
// Threads: one at a time. A stop may be requested from any thread on the token given to the opener:
// a waiting read throws Cancelled within 100 ms.
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

  /// Reads up to `into.size()` bytes and returns how many; 0 from the end on. Blocks until there is
  /// at least one. Requires: `into` is not empty. Throws: NotFound, Io, Truncated, Corrupt (the
  /// object changed, a server misbehaved), Unsupported (a Content-Encoding), Cancelled.
  virtual std::size_t read(std::span<std::byte> into) = 0;
  /// Advances by `bytes` without reading them and returns true, if that is cheaper than reading
  /// them; otherwise does nothing and returns false. Never moves past a known end. Default: returns
  /// false.
  virtual bool skip(std::uint64_t /*bytes*/) { return false; }
  /// Offset in the object of the next byte that read() will return.
  virtual std::uint64_t position() const = 0;
  /// The size of the whole object in bytes; nullopt if unknown (streams; HTTP before the first
  /// read()). Once known it does not change.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// What tells this content of the object from an earlier one of the same size: a server's ETag or
  /// Last-Modified, a file's time of modification. Empty if unknown (streams; HTTP before the first
  /// read()). Default: empty.
  virtual std::string version() const { return {}; }
  /// The url as the user wrote it, without credentials and query string: safe to print. Lifetime:
  /// the source's.
  virtual const std::string& url() const = 0;
};

/// The rest of the source. Throws: Exhausted if it is over `limit_bytes`, and as read().
Bytes read_all(ByteSource& source, std::size_t limit_bytes);

}  // namespace millrace::io
