// Fields: what a sample's members are decoded to, each field one array of the batch, or for
// RawField a list of bytes.
//
//   builder.field(ImageField{.transforms = {RandomCrop{{32, 32}, 4}, RandomHorizontalFlip{}}})
//          .field(LabelField{.classes = 10})
//          .field(FloatsField{.name = "target", .suffixes = "json", .size = 10});
//
// A sample without any of a field's members is a fault of that sample, to which the fault policy
// applies, unless the field says what its value is then (`missing`). JSON that has no value where
// the field takes it from, or null, is such a sample too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "decode/array.h"
#include "decode/audio.h"
#include "decode/boxes.h"
#include "decode/codec.h"
#include "decode/image_decoder.h"
#include "decode/limits.h"
#include "decode/tokenizer.h"
#include "decode/transforms.h"
#include "decode/video.h"
#include "wds/sample.h"

namespace millrace::pipeline {

/// An image, decoded and transformed straight into its slot: (N, H, W, C) or (N, C, H, W). Several
/// fields of one member are views of it that are independent of each other: each draws its random
/// transforms by its own name (the first field of images draws by the sample alone), or by the
/// number `view`. Images that are to get the same crop and flip are a PairedImagesField.
struct ImageField {
  std::string name = "image";
  /// "jpg;png": the first that the sample has is used. Empty: all of `codecs`.
  std::string suffixes = {};
  std::vector<decode::Transform> transforms = {};
  int channels = 3;
  decode::DType dtype = decode::DType::kFloat32;
  decode::Layout layout = decode::Layout::kHWC;
  decode::Interpolation interpolation = decode::Interpolation::kBilinear;
  /// What padded pixels hold, not scaled; NaN: no value, for targets. nullopt: what level 0
  /// becomes. Requires: kFloat32.
  std::optional<float> padding = {};
  /// Decodes a palette PNG to its indices, not its colours. Requires: channels 1, kNearest.
  bool palette_indices = false;
  /// The image is a mask of class numbers. Requires: channels 1, kInt64, kNearest.
  std::optional<decode::ClassMask> classes = {};
  /// The grey levels are values of their own, such as depths (decode/image_decoder.h).
  std::optional<decode::GreyValues> values = {};
  /// Rotates a JPEG by its Exif orientation.
  bool apply_orientation = false;
  decode::Limits limits = {};
  bool tolerate_truncated = false;
  /// Null: decode::standard_codecs().
  std::shared_ptr<const decode::CodecTable> codecs = nullptr;
  /// What fills the array of a sample without a picture, as it is, not normalised; nullopt: that is
  /// a fault. Not for members of a PairedImagesField.
  std::optional<double> missing = {};
  /// Multi-crop: the number of this view, which keys its random transforms; 0 draws by the sample
  /// alone. The views of one member are cut from one decode of the whole picture, at full size, so
  /// that no bit of one depends on the others. nullopt: the field is decoded by itself. At least 0.
  std::optional<std::int64_t> view = {};
};

/// Several images of one sample (a picture, its mask, its depth) under one geometry: all get the
/// same crop, resize and flip. Each member is a field of the batch.
struct PairedImagesField {
  std::vector<decode::Transform> geometry = {};
  /// A member's own transforms change levels, and move nothing.
  std::vector<ImageField> members = {};
};

/// A class index: int64, (N). A whole number in JSON (suffix `json`), or as text (any other
/// suffix).
struct LabelField {
  std::string name = "label";
  std::string suffixes = "cls";
  /// A label outside [0, classes) is a fault; 0 accepts every integer.
  std::int64_t classes = 0;
  /// Which value of the JSON, as FloatsField::json_key.
  std::string json_key = {};
  /// The label of a sample without one, which `classes` does not bound; nullopt: that is a fault.
  std::optional<std::int64_t> missing = {};
};

/// A list of numbers, or of 0 and 1 (multi-label): float32, (N, size). A JSON array (suffix
/// `json`), or text with numbers separated by spaces or commas (any other suffix).
struct FloatsField {
  std::string name = "target";
  std::string suffixes = "json";
  std::int64_t size = 0;
  /// Which value of the JSON: a key of the outermost object, or a JSON pointer ("/boxes/0"). Empty:
  /// all of it.
  std::string json_key = {};
  /// Each number of a sample without the member; nullopt: that is a fault.
  std::optional<double> missing = {};
};

/// Boxes of the objects in a picture, in pixels of the array that the picture becomes: JSON as
/// `create --from-json` writes it. They follow the picture's crops, resizes, turns and flips, with
/// its random choices; what leaves the picture is cut off. Three arrays: `name`, float32 (N, most,
/// 4), zeros behind the last box; `name`.label, int64 (N, most), -1 behind it; `name`.count, int64
/// (N), how many there are.
struct BoxesField {
  std::string name = "boxes";
  /// The field of the picture: an ImageField's or a member's of a PairedImagesField. Its transforms
  /// may not be policies that move pixels (RandAugment).
  std::string image = "image";
  std::string suffixes = "json";
  /// Of more boxes the largest are kept, in the order of the JSON.
  std::int64_t most = 100;
  /// In pixels of the picture as it is before its transforms, turned by Exif if its field does so.
  decode::BoxKeys keys = {};
  /// Of the array.
  decode::BoxForm form = decode::BoxForm::kXyxy;
  /// A label outside [0, classes) is a fault; 0 accepts every integer.
  std::int64_t classes = 0;
  /// A box of which less is left in the picture is dropped: a share of its area.
  double min_share = 0.1;
  /// So is one whose shorter side is then less, in pixels.
  double min_side = 1;
  /// If the JSON says of what width and height the picture was, and it is stored smaller, its boxes
  /// are made smaller, too.
  bool scaled = true;
  /// A sample without the JSON has no boxes; else that is a fault.
  bool may_lack = false;
};

/// A text of a fixed length: its UTF-8 bytes, uint8 (N, length), or its tokens, int64 (N, length);
/// and `name`.mask, uint8 (N, length), 1 where the text is and 0 behind it. What is longer is cut,
/// of bytes behind a whole character.
struct TextField {
  std::string name = "text";
  std::string suffixes = "txt";
  /// A value of the JSON in the member instead, as RawField::json_key.
  std::string json_key = {};
  std::int64_t length = 0;
  /// What is behind the text.
  std::int64_t padding = 0;
  /// The numbers of a text's tokens; null: its bytes. It is called from many threads at once. What
  /// it throws is a fault of the sample, except std::bad_alloc, which ends the pipeline.
  std::function<std::vector<std::int64_t>(std::string_view text)> tokenize = {};
  /// Likewise, by a file. What it adds behind a text stays where the text is cut.
  std::shared_ptr<const decode::Tokenizer> tokenizer = {};
  /// Around a text's tokens, and outside of what the file adds. Requires: tokenizer.
  decode::TokenMarks marks = {};
  /// The text of a sample without the member; nullopt: that is a fault.
  std::optional<std::string> missing = {};
};

/// A part of a sound, WAV or FLAC: float32 (N, channels, samples), and `name`.length, int64 (N),
/// how many samples of it are sound; zeros are behind them. Where the part begins is drawn by the
/// field's name.
struct AudioField {
  std::string name = "audio";
  std::string suffixes = "flac;wav";
  /// The part's length: `seconds` times `rate` samples.
  double seconds = 0;
  /// Samples a second that it is resampled to.
  int rate = 16'000;
  /// 1: the mean of all channels; 2: as they are, or one twice.
  int channels = 1;
  decode::ClipPlace place = decode::ClipPlace::kRandom;
  decode::AudioLimits limits = {};
  /// A sample without the member has a sound of length 0; else that is a fault.
  bool may_lack = false;
};

/// A part of a film, MP4 or WebM: uint8 (N, frames, height, width, 3), and `name`.length, int64
/// (N), how many of its pictures are the film's; zeros are behind them. Where the part begins is
/// drawn by the field's name.
struct VideoField {
  std::string name = "video";
  std::string suffixes = "mp4;webm";
  std::int64_t frames = 0;
  /// Of each picture; proportions are not kept.
  decode::Extent size = {};
  /// Pictures a second, of which each is what the film shows then; 0: those of the film.
  double rate = 0;
  decode::ClipPlace place = decode::ClipPlace::kRandom;
  decode::VideoLimits limits = {};
  /// A sample without the member has a film of length 0; else that is a fault.
  bool may_lack = false;
};

/// A NumPy array (`npy`) of this shape, converted to the dtype.
struct ArrayField {
  std::string name = "array";
  std::string suffixes = "npy";
  decode::ArraySpec output = {};  ///< of one sample
  /// Each value of a sample without the member; nullopt: that is a fault.
  std::optional<double> missing = {};
};

/// A member's bytes as they are, each sample's as many as it has: a caption, an audio clip. They
/// are in Batch::ragged, not in Batch::fields.
struct RawField {
  std::string name = "text";
  std::string suffixes = "txt";
  /// Bytes that are not UTF-8 are a fault.
  bool text = false;
  /// A value of the JSON in the member instead, as FloatsField::json_key: a string's text, or a
  /// number, list or object as JSON writes it. Empty: the member itself.
  std::string json_key = {};
  /// More bytes are a fault. pipeline.memory_bound_bytes() counts on so many per slot.
  std::size_t max_bytes = std::size_t{64} * 1024;
  /// The bytes of a sample without the member; nullopt: that is a fault.
  std::optional<std::string> missing = {};
};

/// Anything else: `decode` writes one sample's array into its slot and must fill it completely. It
/// is called from many threads at once, with the SampleId of the first field of images. What it
/// throws is a fault of the sample, except std::bad_alloc, which ends the pipeline.
struct FunctionField {
  std::string name;
  decode::ArraySpec output;  ///< of one sample
  std::function<void(const wds::Sample&, const decode::SampleId&, std::span<std::byte> slot)>
      decode;
};

using FieldSpec =
    std::variant<ImageField, PairedImagesField, LabelField, FloatsField, BoxesField, TextField,
                 AudioField, VideoField, ArrayField, RawField, FunctionField>;

}  // namespace millrace::pipeline
