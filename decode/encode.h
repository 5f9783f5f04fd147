// Encoders: an Image as the bytes of a file.
#pragma once

#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::decode {

/// PGM (P5) for 1 channel, PPM (P6) for 3. Throws: InvalidArgument for 4 channels.
io::Bytes encode_pnm(const Image& image);

/// PNG, 8 bits a channel, losslessly compressed.
io::Bytes encode_png(const Image& image);

struct JpegOptions {
  /// 1 to 100, libjpeg's scale.
  int quality = 90;
  /// 4:2:0 halves the chroma's resolution both ways, as cameras do; false keeps it (4:4:4).
  bool subsample = true;
};

/// Baseline JPEG with optimised Huffman tables. Throws: InvalidArgument for 4 channels.
io::Bytes encode_jpeg(const Image& image, const JpegOptions& options = {});

}  // namespace millrace::decode
