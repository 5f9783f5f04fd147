// ClassMask: how the pixels of a segmentation mask are read as class numbers, without
// loss.
//
// Without a colour table a pixel's class is the number that the file stores: a palette index (never
// its colour), or a grey level of 1 to 16 bits, unscaled. With one it is the class of the pixel's
// colour. Masks are PNG or PNM: a JPEG does not preserve values.
//
//   ImageDecoder decoder({.transforms = {Resize{360, 480}}, .channels = 1, .dtype = DType::kInt64,
//                         .interpolation = Interpolation::kNearest,
//                         .classes = ClassMask{.classes = 11}});
//
// Threads: value types; decode_classes may be called from many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

using RgbColour = std::array<std::uint8_t, 3>;

struct ClassColour {
  RgbColour rgb = {};
  std::int64_t label = 0;
};

struct ClassMask {
  /// The label of padding. Pixels with it belong to no class: losses and metrics exclude them. -1:
  /// no stored number is excluded.
  std::int64_t ignore = 255;
  /// A label outside [0, classes) that is not `ignore` is a fault; 0 accepts every number.
  std::int64_t classes = 0;
  /// The label of each colour, which may be `ignore`; an unlisted colour is a fault. Empty: the
  /// stored numbers are the labels.
  std::vector<ClassColour> colours = {};
};

struct ClassImage {
  int height = 0;
  int width = 0;
  std::vector<std::int64_t> labels;  ///< (H, W)
};

/// Decodes the whole mask. Throws: Corrupt (an invalid label or colour, with its position),
/// Unsupported (JPEG; a colour picture without a table), and as decode_image.
ClassImage decode_classes(const io::Bytes& encoded, const ClassMask& mask,
                          const Limits& limits = {});

}  // namespace millrace::decode
