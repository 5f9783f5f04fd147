// PairedDecoder: several images of one sample (a picture, its mask, its depth) under one geometry.
//
// The crops, resizes and flips are given once and fall the same way for every member; what else is
// done (interpolation, channels, dtype, colour, normalisation) each member has for itself.
//
//   PairedDecoder decoder({RandomResizedCrop{.size = 96}, RandomHorizontalFlip{}},
//                         {{.transforms = {ColorJitter{.brightness = 0.2}, Normalize::imagenet()}},
//                          {.channels = 1, .dtype = DType::kInt64,
//                           .interpolation = Interpolation::kNearest, .palette_indices = true}});
//   decoder.decode({{image, mask}}, id, {{image_slot, mask_slot}});
//
// Threads: decode() may be called from many threads at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/image_decoder.h"

namespace millrace::decode {

class PairedDecoder {
 public:
  /// `members`' own transforms are ColorJitter and Normalize alone.
  /// Throws: InvalidArgument as ImageDecoder, and when a member has a geometry of its own.
  PairedDecoder(const std::vector<Transform>& geometry, std::vector<ImageDecoderOptions> members);

  std::size_t num_members() const { return decoders_.size(); }
  const ArraySpec& output(std::size_t member) const { return decoders_[member].output(); }

  /// Throws: as ImageDecoder; Corrupt when the images are not all of one size.
  /// Requires: as many images and slots as members.
  void decode(std::span<const io::Bytes> encoded, const SampleId& id,
              std::span<const std::span<std::byte>> slots) const;

 private:
  std::vector<ImageDecoderOptions> members_;
  std::vector<ImageDecoder> decoders_;
};

}  // namespace millrace::decode
