// PairedDecoder: several images of one sample (a picture, its mask, its depth) under one geometry.
//
// The crops, resizes and flips are given once and are the same for every member; everything else
// (interpolation, channels, dtype, colour, normalisation) is set for each member.
//
//   PairedDecoder decoder({RandomResizedCrop{.size = 96}, RandomHorizontalFlip{}},
//                         {{.transforms = {ColorJitter{.brightness = 0.2}, Normalize::imagenet()}},
//                          {.channels = 1, .dtype = DType::kInt64,
//                           .interpolation = Interpolation::kNearest, .palette_indices = true}});
//   const std::array images = {PairedImage{jpg, image_slot}, PairedImage{png, mask_slot}};
//   decoder.decode(images, id);
//
// Threads: decode() may be called from many threads at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/image_decoder.h"
#include "io/base/error.h"

namespace millrace::decode {

/// One member's file and the destination of its pixels.
struct PairedImage {
  io::Bytes encoded = {};
  std::span<std::byte> slot = {};
  /// Added to Errors about this image.
  Where where = {};
};

class PairedDecoder {
 public:
  /// Throws: InvalidArgument as ImageDecoder, if `geometry` has another kind of transform, and if a
  /// member has one that is geometry or, beside others, moves pixels (RandAugment).
  PairedDecoder(const std::vector<Transform>& geometry, std::vector<ImageDecoderOptions> members);

  std::size_t num_members() const { return decoders_.size(); }
  const ArraySpec& output(std::size_t member) const { return decoders_[member].output(); }

  /// Throws: as ImageDecoder; Corrupt if the images are not all of one size. Requires: an image for
  /// each member, in the members' order.
  Tidiness decode(std::span<const PairedImage> images, const SampleId& id) const;

 private:
  void check_sizes(std::span<const PairedImage> images) const;

  std::vector<ImageDecoderOptions> members_;
  std::vector<ImageDecoder> decoders_;
};

}  // namespace millrace::decode
