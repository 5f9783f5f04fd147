// Fields packed with gzip (`.gz` suffixes).
#pragma once

#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

/// Unpacks gzip data of one or several members. Grows with what arrives, never with what is
/// claimed. Throws: Corrupt, Truncated, Exhausted (the limits on unpacked bytes and their ratio).
io::Bytes gunzip(const io::Bytes& packed, const Limits& limits = {});

}  // namespace millrace::decode
