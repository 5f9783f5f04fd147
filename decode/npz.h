// NumPy archives: `npz` fields, zip files of npy members, stored or deflated.
//
// Source: PKWARE's APPNOTE 4.3 (zip), as far as NumPy writes it: one disk, no encryption.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "decode/limits.h"
#include "decode/npy.h"
#include "io/bytes.h"

namespace millrace::decode {

/// One array; stored ones are shown where they lie. Throws: NotFound when there is none of this
/// name; Corrupt (its CRC-32 too), Truncated, Unsupported, Exhausted.
NpyArray npz_array(const io::Bytes& archive, std::string_view name, const Limits& limits = {});

/// All arrays, by their names without `.npy`; max_unpacked_bytes is for all of them together.
/// Throws: as npz_array.
std::map<std::string, NpyArray> npz_arrays(const io::Bytes& archive, const Limits& limits = {});

}  // namespace millrace::decode
