// ImageDecoder: encoded bytes to the pixels a model sees, written directly into their slot.
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
#include "decode/grey_values.h"
#include "decode/interpolation.h"
#include "decode/limits.h"
#include "decode/sample_id.h"
#include "decode/transforms.h"
#include "io/bytes.h"

namespace millrace::decode {

class DecodedCache;
struct PictureMeter;

struct ImageDecoderOptions {
  std::vector<Transform> transforms = {};
  /// 3 decodes to RGB (grey becomes three equal channels), 4 to RGB and alpha, 1 to grey.
  int channels = 3;
  /// uint8 and int64 hold pixel values 0 to 255; floats hold value / 255, then normalised. uint16
  /// holds the grey levels that the file stores, of up to 16 bits, unscaled; padding is 0. Requires
  /// for it: channels is 1, kNearest.
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kHWC;
  /// Where a transform does not say another one. kNearest is done whatever they say.
  Interpolation interpolation = Interpolation::kBilinear;
  /// What padded pixels hold, not scaled; NaN: no value, for targets (trainer/loss/loss.h).
  /// nullopt: what level 0 becomes. Requires: kFloat32.
  std::optional<float> padding = {};
  /// Decodes a palette PNG to its indices, not its colours. Requires: channels is 1, and kNearest.
  bool palette_indices = false;
  /// The picture is a mask of class numbers; padding gets the ignored label. Requires: channels is
  /// 1, dtype kInt64, kNearest.
  std::optional<ClassMask> classes = {};
  /// The grey levels are values of their own. 16 bits are kept, and pixels resized to the nearest;
  /// so are 8 bits where `values` says more than its defaults, else they are as without it.
  /// Requires: channels is 1, kFloat32, levels that no transform changes or normalises.
  std::optional<GreyValues> values = {};
  /// Rotates a JPEG by its Exif orientation, before any transform.
  bool apply_orientation = false;
  Limits limits = {};
  /// Decodes what is left of a damaged or truncated JPEG instead of throwing.
  bool tolerate_truncated = false;
  /// The known formats. Null: standard_codecs().
  std::shared_ptr<const CodecTable> codecs = nullptr;
  /// Keeps pictures as they were decoded, for the next time; not with tolerate_truncated, and not
  /// those that are damaged. No bit depends on it. Null: nothing is kept.
  std::shared_ptr<DecodedCache> cache = nullptr;
  /// Counts what was decoded. Null: nothing does.
  std::shared_ptr<PictureMeter> meter = nullptr;
};

/// Whether a file conforms to its format. An untidy one has an oddity that costs no pixel
/// (bytes before a marker, a comment of impossible length) or that was tolerated; see
/// Image::untidy.
enum class Tidiness { kTidy, kUntidy };

/// Whether both make the same of a file, before their transforms.
bool decode_alike(const ImageDecoderOptions& one, const ImageDecoderOptions& other);

namespace detail {
struct SourceWorkspace;
}  // namespace detail

/// A picture that is decoded whole, at full size, before any transform.
struct WholePicture {
  PixelView pixels = {};  ///< at least all of it
  int width = 0;
  int height = 0;
  Tidiness tidiness = Tidiness::kTidy;
};

class ImageDecoder {
 public:
  /// Throws: InvalidArgument if the options contradict, or do not determine the output's size.
  explicit ImageDecoder(const ImageDecoderOptions& options);
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Shape (H, W, C) or (C, H, W).
  const ArraySpec& output() const;
  /// Fills all of `slot`. Throws: Corrupt, Truncated, Unsupported (also if a random crop is larger
  /// than the image), Exhausted (a limit). Damage in a part of the image that the transforms cut
  /// away may go undetected; a truncated file is always detected. Running out of memory is
  /// std::bad_alloc, never a fault in the file. Requires: slot.size() == output().num_bytes(),
  /// aligned to the dtype.
  Tidiness decode(const io::Bytes& encoded, const SampleId& id, std::span<std::byte> slot) const;

  /// decode() in two steps, for several decoders of one picture (views_decoder.h). Damage anywhere
  /// is detected. Lifetime: until the workspace is used again. Throws: as decode().
  WholePicture read_whole(const io::Bytes& encoded, detail::SourceWorkspace& workspace) const;
  /// Requires: `whole` is of a decoder whose options say the same about what a file is decoded to.
  void decode_whole(const WholePicture& whole, const SampleId& id, std::span<std::byte> slot) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace millrace::decode
