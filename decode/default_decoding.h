// The format's default decoding: what a field is, told by its suffix alone.
//
// txt, text, transcript are UTF-8; cls, cls2, index, inx, id an integer; json, jsn JSON; npy an
// array, npz arrays; what standard_codecs() reads is an image; all else stays bytes, so nothing
// that could run code is ever unpickled. The last dotted component counts, after a `.gz` is
// unpacked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "decode/image.h"
#include "decode/limits.h"
#include "decode/npy.h"
#include "io/bytes.h"

namespace millrace::decode {

enum class FieldKind { kBytes, kText, kInteger, kJson, kArray, kArrays, kImage };

/// "seg.png.gz" is an image.
FieldKind kind_of_suffix(std::string_view suffix);
bool is_gzip_suffix(std::string_view suffix);

struct Json {
  io::Bytes text;  ///< checked
};

using DecodedField = std::variant<io::Bytes, std::string, std::int64_t, Json, NpyArray,
                                  std::map<std::string, NpyArray>, Image>;

/// Throws: Corrupt, Truncated, Unsupported, Exhausted, whatever the kind's own decoder throws.
DecodedField decode_field(std::string_view suffix, const io::Bytes& field,
                          const DecodeImageOptions& options = {});

}  // namespace millrace::decode
