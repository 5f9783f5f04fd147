// open_unpacked_file: the contents of a file that is packed as a whole by gzip, bzip2, xz or zstd,
// known by its first bytes.
//
//   auto source = open_unpacked_file(opener.open("shard.00000.mds.zstd"), {});
//   io::Bytes all = io::read_all(*source, limit);
//
// Threads: callable from any thread; the source one at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "io/byte_source.h"

namespace millrace::wds {

struct UnpackedFileOptions {
  /// Maximum ratio of unpacked to packed bytes, enforced from 64 MiB of output on.
  std::uint64_t max_expansion = 100;
  /// Maximum window of a zstd frame, in bytes: its decoder allocates that much.
  std::uint64_t max_window_bytes = std::uint64_t{128} * 1024 * 1024;
};

/// The unpacked bytes of `packed`, or those of a file that is not packed. Its first bytes are read.
/// Reading throws: Truncated, Corrupt (also by gzip's checksum), Exhausted (a limit), Unsupported
/// (lz4, lzip, lzop, compress).
std::unique_ptr<io::ByteSource> open_unpacked_file(std::unique_ptr<io::ByteSource> packed,
                                                   const UnpackedFileOptions& options = {});

}  // namespace millrace::wds
