// NumPy archives: `npz` fields, which are zip files of npy members, stored or deflated.
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

/// One array; a stored one is not copied. Throws: NotFound if there is none of this name; Corrupt
/// (including its CRC-32), Truncated, Unsupported, Exhausted.
NpyArray npz_array(const io::Bytes& archive, std::string_view name, const Limits& limits = {});

/// All arrays, by their names without `.npy`; max_unpacked_bytes applies to their sum.
/// Throws: as npz_array.
std::map<std::string, NpyArray> npz_arrays(const io::Bytes& archive, const Limits& limits = {});

}  // namespace millrace::decode
