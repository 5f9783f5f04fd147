// Pictures stored in another way, so that training decodes less of them: smaller JPEGs, or raw
// pixels.
//
//   if (const auto small = decode::shrink_jpeg(photo, {.shorter = 256})) photo = *small;
//   const decode::EncodedImage raw = decode::store_raw(photo);   // "ppm", read without decoding
//
// Without loss, for crops: jpeg_restarts.h.
//
// Threads: may be called from many threads at once.
#pragma once

#include <optional>

#include "decode/codec.h"
#include "decode/image.h"
#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

/// The size of a picture whose shorter side becomes `shorter`, in proportion. Throws: Exhausted for
/// one that would be longer than JPEG allows.
ImageSize size_with_shorter(const ImageSize& before, int shorter);

/// Throws: Unsupported for a picture whose levels have 16 bits, of which decode_image() keeps 8; as
/// decode_image() for what has no header.
void refuse_deep_levels(const io::Bytes& picture, const Limits& limits = {});

/// `image` in another size, antialiased (torchvision's Resize). Throws: InvalidArgument for a size
/// of no pixels.
Image resize_image(const Image& image, const ImageSize& size);

struct ShrinkOptions {
  /// What the shorter side becomes, in pixels.
  int shorter = 256;
  /// 1 to 100, libjpeg's scale.
  int quality = 90;
  /// A picture that is not larger stays as it is; false: it is resized, too.
  bool only_larger = true;
  Limits limits = {};
};

/// A JPEG of `jpeg` with another shorter side, in proportion; decoded in full, resized and coded
/// again, 4:2:0. Its Exif, XMP and colour profile are kept, and with them how it is turned.
/// nullopt: it is not larger. Throws: Unsupported (not a JPEG), Corrupt, Truncated, Exhausted (a
/// limit); std::bad_alloc.
std::optional<io::Bytes> shrink_jpeg(const io::Bytes& jpeg, const ShrinkOptions& options = {});

/// The pixels of `picture` with their size in front: PGM of one channel, PPM of three, 8 bits each,
/// (H, W, C), which ImageDecoder reads where they lie. Every pixel is kept. Throws: Unsupported for
/// what that format does not hold (a palette's indices, more than 8 bits, alpha, an Exif
/// orientation), and for a PNM, which is stored so already; as decode_image().
EncodedImage store_raw(const io::Bytes& picture, const Limits& limits = {});

}  // namespace millrace::decode
