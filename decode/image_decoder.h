// ImageDecoder: encoded bytes to the pixels a model sees, written straight into their slot.
//
// A decoder is compiled from a list of transforms, a dtype and a layout; decoding, crop, resize,
// flip and normalisation run fused, with as much of the work as possible skipped in the codec
// (scaled and region decode). Random transforms draw from keyed randomness: the same SampleId gives
// the same bits, and the same crop and flip to every decoder with the same geometric transforms, if
// the images have one size (see paired_decoder.h).
//
//   ImageDecoder decoder({.transforms = {RandomResizedCrop{.size = 224}, RandomHorizontalFlip{},
//                                        Normalize::imagenet()},
//                         .dtype = DType::kBFloat16, .layout = Layout::kHWC});
//   decoder.decode(bytes, id, slot);   // slot: decoder.output().num_bytes() bytes
//
// Threads: decode() may be called from many threads at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/array.h"
#include "decode/class_mask.h"
#include "decode/codec.h"
#include "decode/limits.h"
#include "decode/sample_id.h"
#include "decode/transforms.h"
#include "io/bytes.h"

namespace millrace::decode {

/// How a resize makes new pixels.
enum class Interpolation {
  kBilinear,  ///< antialiased: a triangle as wide as an output pixel
  kNearest,   ///< no new values: for masks
};

struct ImageDecoderOptions {
  std::vector<Transform> transforms = {};
  /// 3 decodes to RGB (grey becomes three equal channels), 4 to RGB and alpha, 1 to grey.
  int channels = 3;
  /// uint8 and int64 hold the pixels' values 0 to 255, floats the value / 255, normalised.
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kHWC;
  Interpolation interpolation = Interpolation::kBilinear;
  /// A palette PNG gives its indices, not its colours. Requires: channels is 1, and kNearest.
  bool palette_indices = false;
  /// The picture is a mask, and its pixels are class numbers; what is padded is ignored.
  /// Requires: channels is 1, dtype kInt64, kNearest.
  std::optional<ClassMask> classes = {};
  /// Turns a JPEG as its Exif orientation says, before any transform.
  bool apply_orientation = false;
  Limits limits = {};
  /// Decodes what there is of a damaged or cut JPEG instead of throwing.
  bool tolerate_truncated = false;
  /// The formats that are known. Null: standard_codecs().
  std::shared_ptr<const CodecTable> codecs = nullptr;
};

/// Whether a file is written as its format says. An untidy one is odd in a way that costs no pixel
/// (bytes before a marker, a comment of impossible length) or was tolerated; Image::untidy names
/// it.
enum class Tidiness { kTidy, kUntidy };

class ImageDecoder {
 public:
  /// Throws: InvalidArgument when the transforms leave the output's size open, or contradict.
  explicit ImageDecoder(const ImageDecoderOptions& options);
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Shape (H, W, C) or (C, H, W).
  const ArraySpec& output() const;
  /// Fills `slot` whole, or throws: Corrupt, Truncated, Unsupported (also when a random crop is
  /// larger than the image), Exhausted (a limit). Damage in a part of the image that the transforms
  /// cut away may go unseen; a file that is cut short is always seen.
  /// Whatever there is no memory for is std::bad_alloc, never a fault of the file.
  /// Requires: slot.size() == output().num_bytes(), aligned to the dtype.
  Tidiness decode(const io::Bytes& encoded, const SampleId& id, std::span<std::byte> slot) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace millrace::decode
