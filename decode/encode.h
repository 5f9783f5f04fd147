// Encoders: an Image to the bytes of a file.
#pragma once

#include <span>

#include "decode/class_mask.h"
#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::decode {

/// PGM (P5) for 1 channel, PPM (P6) for 3. Throws: InvalidArgument for 4 channels.
io::Bytes encode_pnm(const Image& image);

/// PNG, 8 bits per channel, losslessly compressed.
io::Bytes encode_png(const Image& image);

/// A mask's class numbers as a PNG, exactly: palette indices with `colours`, which viewers show;
/// without colours, or with numbers above 255, grey levels of 8 or 16 bits, of `least_bits` at
/// least. Throws: InvalidArgument for a number that is not 0 to 65535, and for more than 256
/// colours.
io::Bytes encode_mask_png(const ClassImage& mask, std::span<const RgbColour> colours = {},
                          int least_bits = 8);

struct JpegOptions {
  /// 1 to 100, libjpeg's scale.
  int quality = 90;
  /// 4:2:0 halves the chroma resolution in both directions, as cameras do; false keeps it (4:4:4).
  bool subsample = true;
};

/// Baseline JPEG with optimised Huffman tables. Throws: InvalidArgument for 4 channels.
io::Bytes encode_jpeg(const Image& image, const JpegOptions& options = {});

}  // namespace millrace::decode
