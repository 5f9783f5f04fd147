// gunzip: fields compressed with gzip (`.gz` suffixes).
#pragma once

#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

/// Unpacks gzip data of one or several members. Memory grows with the output, never with a claimed
/// size. Throws: Corrupt, Truncated, Exhausted (the limits on size and ratio).
io::Bytes gunzip(const io::Bytes& packed, const Limits& limits = {});

}  // namespace millrace::decode
