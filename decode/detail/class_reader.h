// ClassReader: a compiled ClassMask. It maps stored pixels to class numbers in a form that crops,
// nearest-neighbour resizes and flips carry through unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "decode/class_mask.h"
#include "decode/detail/image_source.h"

namespace millrace::decode::detail {

class ClassReader {
 public:
  /// A label plus 1 as three bytes, little-endian: the zeros of padding are not a label.
  static constexpr int kChannels = 3;

  /// `what` is what messages call the picture, of static lifetime. Throws: InvalidArgument for two
  /// labels of one colour, or a label out of range.
  explicit ClassReader(const ClassMask& mask, std::string_view what = "mask");

  /// The `numbers` option with which an ImageSource must be opened.
  Numbers numbers() const { return labels_.empty() ? Numbers::kAll : Numbers::kNone; }
  /// The labels of at least `box`. Throws: as decode_classes().
  PixelView read(const ImageSource& source, const Box& box, SourceWorkspace& workspace) const;
  /// Converts a row in read()'s form, resampled or not, to labels; padding becomes `ignore`.
  template <typename Label>
  void write(const std::uint8_t* row, std::span<Label> out) const {
    for (Label& label : out) {
      const std::uint32_t code = row[0] | std::uint32_t{row[1]} << 8 | std::uint32_t{row[2]} << 16;
      label = static_cast<Label>(code == 0 ? mask_.ignore : static_cast<std::int64_t>(code) - 1);
      row += kChannels;
    }
  }

 private:
  void check(std::uint32_t label, const Box& box, std::size_t at) const;
  std::uint32_t label_of(const std::uint8_t* rgb, const Box& box, std::size_t at) const;
  template <int kBytes>
  void convert(const PixelView& stored, std::uint8_t* out) const;

  ClassMask mask_;
  std::string_view what_;
  std::unordered_map<std::uint32_t, std::uint32_t> labels_;  ///< colour 0xRRGGBB → label
};

}  // namespace millrace::decode::detail
