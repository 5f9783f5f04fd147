// Unpacking: a compressed tar (gzip, bzip2, xz, zstd) as a ByteSource of the tar itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "io/byte_source.h"
#include "wds/detail/tape.h"

namespace millrace::wds::detail {

struct UnpackLimits {
  /// Unpacked over packed bytes, once 64 MiB have come out.
  std::uint64_t max_expansion = 100;
  /// Bytes of a zstd frame's window, which its decoder allocates.
  std::uint64_t max_window = std::uint64_t{8} * 1024 * 1024;
};

/// Whether what comes next on `packed` is compressed in a way that unpack() knows.
bool is_compressed(Tape& packed);

/// The unpacked bytes of `packed`, which stands at 0. Reading throws: Truncated, Corrupt (gzip's
/// own checksum too), Exhausted (a limit).
std::unique_ptr<io::ByteSource> unpack(std::unique_ptr<Tape> packed, const UnpackLimits& limits);

/// Streams so far that carry no checksum of their content: frames of zstd, or the first of xz. gzip
/// and bzip2 always carry one.
std::uint64_t unguarded_frames(const io::ByteSource& unpacked);
/// How many packed bytes `unpacked`, which unpack() made, has read; nothing when more are left.
std::optional<std::uint64_t> packed_bytes(const io::ByteSource& unpacked);
/// The most bytes that `unpacked` can hold in all within its limits, where its packed size is
/// known.
std::optional<std::uint64_t> most_bytes(const io::ByteSource& unpacked);

}  // namespace millrace::wds::detail
