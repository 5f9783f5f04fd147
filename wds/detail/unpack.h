// Unpacking: a compressed tar (gzip, bzip2, xz, zstd) as a ByteSource of the tar itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "io/byte_source.h"
#include "wds/detail/tape.h"

namespace millrace::wds::detail {

/// Whether what comes next on `packed` is compressed in a way that unpack() knows.
bool is_compressed(Tape& packed);

/// The unpacked bytes of `packed`, which stands at 0. Reading throws: Truncated, Corrupt, Exhausted
/// (more than `max_expansion` times the packed size, once 64 MiB have come out).
std::unique_ptr<io::ByteSource> unpack(std::unique_ptr<Tape> packed, std::uint64_t max_expansion);

/// How many packed bytes `unpacked`, which unpack() made, has read; nothing when more are left.
std::optional<std::uint64_t> packed_bytes(const io::ByteSource& unpacked);

}  // namespace millrace::wds::detail
