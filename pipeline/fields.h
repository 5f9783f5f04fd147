// Fields: what is made of a sample's members, each into one array of the batch.
//
//   builder.field(ImageField{.transforms = {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}}})
//          .field(LabelField{.classes = 10})
//          .field(FloatsField{.name = "target", .suffixes = "json", .size = 10});
//
// A field whose members are all missing from a sample is a fault of that sample, and goes by the
// fault policy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "decode/array.h"
#include "decode/codec.h"
#include "decode/image_decoder.h"
#include "decode/limits.h"
#include "decode/transforms.h"
#include "wds/sample.h"

namespace millrace::pipeline {

/// An image, decoded and transformed straight into its slot: (N, H, W, C) or (N, C, H, W).
struct ImageField {
  std::string name = "image";
  /// "jpg;png": the first that the sample has is taken. Empty: all that `codecs` has.
  std::string suffixes = {};
  std::vector<decode::Transform> transforms = {};
  int channels = 3;
  decode::DType dtype = decode::DType::kFloat32;
  decode::Layout layout = decode::Layout::kHWC;
  decode::Interpolation interpolation = decode::Interpolation::kBilinear;
  /// A palette PNG gives its indices (masks); with channels 1 and kNearest.
  bool palette_indices = false;
  /// A mask of class numbers: int64; with channels 1 and kNearest.
  std::optional<decode::ClassMask> classes = {};
  /// Turns a JPEG as its Exif orientation says.
  bool apply_orientation = false;
  decode::Limits limits = {};
  bool tolerate_truncated = false;
  /// The formats that are known. Null: decode::standard_codecs().
  std::shared_ptr<const decode::CodecTable> codecs = nullptr;
};

/// Several images of one sample (a picture, its mask, its depth) under one geometry: crops, resizes
/// and flips fall the same way for all. Each member is a field of the batch.
struct PairedImagesField {
  std::vector<decode::Transform> geometry = {};
  /// Their own transforms are ColorJitter and Normalize alone.
  std::vector<ImageField> members = {};
};

/// A class index written as text (`cls`): int64, (N).
struct LabelField {
  std::string name = "label";
  std::string suffixes = "cls";
  /// A label outside [0, classes) is a fault; 0 accepts every integer.
  std::int64_t classes = 0;
};

/// A list of numbers, or of 0 and 1 (multi-label): float32, (N, size). JSON arrays (`json`), or
/// text with numbers between spaces or commas (any other suffix).
struct FloatsField {
  std::string name = "target";
  std::string suffixes = "json";
  std::int64_t size = 0;
  /// Which value of the JSON it is: a key of the outermost object or a JSON pointer; empty: all.
  std::string json_key = {};
};

/// A NumPy array (`npy`) of this shape, converted to the dtype.
struct ArrayField {
  std::string name = "array";
  std::string suffixes = "npy";
  decode::ArraySpec output = {};  ///< of one sample
};

/// Anything else: `decode` writes one sample's array into its slot, which it must fill whole. It is
/// called from many threads at once; what it throws is a fault of the sample.
struct FunctionField {
  std::string name;
  decode::ArraySpec output;  ///< of one sample
  std::function<void(const wds::Sample&, const decode::SampleId&, std::span<std::byte> slot)>
      decode;
};

using FieldSpec =
    std::variant<ImageField, PairedImagesField, LabelField, FloatsField, ArrayField, FunctionField>;

}  // namespace millrace::pipeline
