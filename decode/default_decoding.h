// WebDataset's default decoding: the kind of a field, by its suffix alone.
//
// txt, text, transcript are UTF-8; cls, cls2, index, inx, id an integer; json, jsn JSON; npy an
// array, npz arrays; suffixes of standard_codecs() an image; anything else stays bytes, so nothing
// is ever unpickled, which could run code. The last dotted component counts, after a `.gz` is
// removed.
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

/// Decodes `field` by its kind. Throws: Corrupt, Truncated, Unsupported, Exhausted, as its decoder.
DecodedField decode_field(std::string_view suffix, const io::Bytes& field,
                          const DecodeImageOptions& options = {});

}  // namespace millrace::decode
