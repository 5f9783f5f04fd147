// ClassReader: a ClassMask compiled: stored pixels to class numbers in a form that the resampler
// carries through crops, nearest-neighbour resizes and flips unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "decode/class_mask.h"
#include "decode/detail/image_source.h"

namespace millrace::decode::detail {

class ClassReader {
 public:
  /// A label plus 1 as three bytes, the lowest first: the zeros of padding are no label.
  static constexpr int kChannels = 3;

  /// Throws: InvalidArgument for two labels of one colour, or a number that no mask can hold.
  explicit ClassReader(const ClassMask& mask);

  /// What an ImageSource must be opened with.
  Numbers numbers() const { return labels_.empty() ? Numbers::kAll : Numbers::kNone; }
  /// The labels of at least `box`. Throws: as decode_classes().
  PixelView read(const ImageSource& source, const Box& box, SourceWorkspace& workspace) const;
  /// A row of read()'s form, resampled or not, as labels; padding is `ignore`.
  void write(const std::uint8_t* row, std::span<std::int64_t> out) const;

 private:
  void check(std::uint32_t label, const Box& box, std::size_t at) const;
  std::uint32_t label_of(const std::uint8_t* rgb, const Box& box, std::size_t at) const;
  template <int kBytes>
  void convert(const PixelView& stored, std::uint8_t* out) const;

  ClassMask mask_;
  std::unordered_map<std::uint32_t, std::uint32_t> labels_;  ///< by colour, 0xRRGGBB
};

}  // namespace millrace::decode::detail
