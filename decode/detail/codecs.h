// The built-in codecs, each an entry of standard_codecs().
#pragma once

#include "decode/codec.h"

namespace millrace::decode::detail {

Codec jpeg_codec();
Codec png_codec();
Codec pnm_codec();
Codec webp_codec();
Codec tiff_codec();

/// Whether `file` begins with `bytes`.
inline bool begins_with(std::span<const std::byte> file, std::string_view bytes) {
  return file.size() >= bytes.size() && std::memcmp(file.data(), bytes.data(), bytes.size()) == 0;
}

}  // namespace millrace::decode::detail
