// unpack: a ByteSource of the tar inside a compressed file (gzip, bzip2, xz, zstd).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "io/byte_source.h"
#include "wds/detail/tape.h"

namespace millrace::wds::detail {

struct UnpackLimits {
  /// Maximum ratio of unpacked to packed bytes, enforced from 64 MiB of output on.
  std::uint64_t max_expansion = 100;
  /// Maximum window of a zstd frame, in bytes: its decoder allocates that much.
  std::uint64_t max_window = std::uint64_t{8} * 1024 * 1024;
};

/// Whether the next bytes of `packed` are compressed, in a format that unpack() supports or names.
bool is_compressed(Tape& packed);

/// The unpacked bytes of `packed`, which is positioned at 0; nothing is read yet. Reading throws:
/// Truncated, Corrupt (including gzip's checksum), Exhausted (a limit), Unsupported (lz4, lzip,
/// lzop, compress).
std::unique_ptr<io::ByteSource> unpack(std::unique_ptr<Tape> packed, const UnpackLimits& limits);

/// Number of zstd frames so far, or 1 for an xz stream, without a checksum of their content. gzip
/// and bzip2 always have one.
std::uint64_t unguarded_frames(const io::ByteSource& unpacked);
/// How many packed bytes `unpacked`, made by unpack(), has read; nullopt if more are left.
std::optional<std::uint64_t> packed_bytes(const io::ByteSource& unpacked);
/// The most bytes that `unpacked` can yield in total within its limits; nullopt if its packed size
/// is unknown.
std::optional<std::uint64_t> most_bytes(const io::ByteSource& unpacked);

}  // namespace millrace::wds::detail
