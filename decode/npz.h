// NumPy archives: `npz` fields, zip files of npy members, stored or deflated.
//
// Source: PKWARE's APPNOTE 4.3 (zip), as far as NumPy writes it: one disk, no encryption.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/limits.h"
#include "decode/npy.h"
#include "io/bytes.h"

namespace millrace::decode {

/// The arrays' names, without their `.npy`, in the archive's order. Throws: Corrupt, Truncated.
std::vector<std::string> npz_names(const io::Bytes& archive);

/// One array; stored ones are shown where they lie. Throws: NotFound when there is none of this
/// name; Corrupt (its CRC-32 too), Truncated, Unsupported, Exhausted.
NpyArray npz_array(const io::Bytes& archive, std::string_view name, const Limits& limits = {});

}  // namespace millrace::decode
