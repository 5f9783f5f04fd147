#include "decode/detail/row_writer.h"

#include <algorithm>
#include <cstring>

namespace millrace::decode::detail {
namespace {

/// The pattern for values that cycle through `channels` channels, starting at `first`.
ScalePattern pattern_of(const ScaleStep* scale, std::size_t first, std::size_t channels) {
  constexpr ScaleStep::Line kPlain = {.slope = static_cast<float>(1.0 / 255.0), .offset = 0};
  ScalePattern pattern{.channels = channels};
  for (std::size_t i = 0; i < ScalePattern::kSize; ++i) {
    const auto line = scale == nullptr ? kPlain : scale->line(first + i % channels);
    pattern.scale[i] = line.slope;
    pattern.bias[i] = line.offset;
  }
  return pattern;
}

}  // namespace

RowWriter::RowWriter(const Format& format, const ScaleStep* scale) : format_(format) {
  const auto channels = static_cast<std::size_t>(format.channels);
  if (format.layout == Layout::kHWC) {
    patterns_.push_back(pattern_of(scale, 0, channels));
  } else {
    for (std::size_t c = 0; c < channels; ++c) patterns_.push_back(pattern_of(scale, c, 1));
  }
}

void RowWriter::write_values(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                             std::byte* out) const {
  switch (format_.dtype) {
    case DType::kUInt8:
      std::memcpy(out, in, count);
      return;
    case DType::kFloat32:
      return scale_to_float(in, count, pattern, reinterpret_cast<float*>(out));
    case DType::kBFloat16:
      return scale_to_bfloat16(in, count, pattern, reinterpret_cast<std::uint16_t*>(out));
    case DType::kFloat16:
      return scale_to_float16(in, count, pattern, reinterpret_cast<std::uint16_t*>(out));
    case DType::kUInt16:
      std::copy_n(in, count, reinterpret_cast<std::uint16_t*>(out));
      return;
    case DType::kInt64:
      std::copy_n(in, count, reinterpret_cast<std::int64_t*>(out));
      return;
  }
}

void RowWriter::write(const std::uint8_t* row, int y, std::byte* slot,
                      std::vector<std::uint8_t>& planes) const {
  const auto width = static_cast<std::size_t>(format_.width);
  const auto channels = static_cast<std::size_t>(format_.channels);
  const std::size_t size = dtype_size(format_.dtype);
  const auto line = static_cast<std::size_t>(y);
  if (format_.layout == Layout::kHWC || channels == 1) {
    const std::size_t count = width * channels;
    return write_values(row, count, patterns_[0], slot + line * count * size);
  }
  std::uint8_t* split = reserve_pixels(planes, width * channels);
  split_channels(row, width, channels, split);
  const std::size_t plane = width * static_cast<std::size_t>(format_.height);
  for (std::size_t c = 0; c < channels; ++c) {
    write_values(split + c * width, width, patterns_[c], slot + (c * plane + line * width) * size);
  }
}

}  // namespace millrace::decode::detail
