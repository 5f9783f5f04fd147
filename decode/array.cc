#include "decode/array.h"

#include <bit>
#include <cmath>
#include <string>

#include "decode/array_view.h"
#include "io/base/error.h"

namespace millrace::decode {

std::size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return 1;
    case DType::kUInt16:
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "uint8";
    case DType::kUInt16:
      return "uint16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kInt64:
      return "int64";
  }
  return "unknown";
}

std::int64_t ArraySpec::num_values() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::size_t ArraySpec::num_bytes() const {
  return static_cast<std::size_t>(num_values()) * dtype_size(dtype);
}

void check_view(const ArrayView& array, DType dtype, std::optional<int> dimensions) {
  const ArraySpec spec{array.dtype, {array.shape.begin(), array.shape.end()}};
  std::string text;
  for (const std::int64_t extent : spec.shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  std::string wrong;
  if (array.dtype != dtype) {
    wrong = "asked for as " + std::string(dtype_name(dtype));
  } else if (spec.shape.empty() || static_cast<int>(spec.shape.size()) !=
                                       dimensions.value_or(static_cast<int>(spec.shape.size()))) {
    const int asked = dimensions.value_or(1);
    wrong = "asked for with " + std::to_string(asked) + (asked == 1 ? " dimension" : " dimensions");
  } else if (spec.num_bytes() != array.data.size()) {
    wrong = "its memory is " + std::to_string(array.data.size()) + " bytes";
  } else {
    return;
  }
  throw Error(ErrorCode::kInvalidArgument, std::string(array.name) + " holds " +
                                               std::string(dtype_name(array.dtype)) +
                                               " of shape (" + text + "); " + wrong);
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could turn a NaN into an infinity: make it a quiet NaN instead.
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t to_even = 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((bits + to_even) >> 16);
}

std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0x7C00;  // infinity
  if (std::isnan(value)) {
    half |= 0x200U | (magnitude >> 13U & 0x3FFU);
  } else if (magnitude < 113U << 23U) {  // subnormal: the sum rounds at the last bit of 2^-24
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<std::uint32_t>(0.5F);
  } else if (magnitude < 143U << 23U) {
    half = (magnitude - (112U << 23U) + 0xFFFU + (magnitude >> 13U & 1U)) >> 13U;
  }
  return static_cast<std::uint16_t>(sign | half);
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const bool subnormal = magnitude < 0x400;
  const std::uint32_t exponent = magnitude < 0x7C00 ? 112U << 23U : 224U << 23U;
  const float value = subnormal ? static_cast<float>(magnitude) * 0x1p-24F
                                : std::bit_cast<float>((magnitude << 13U) + exponent);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) |
                              static_cast<std::uint32_t>(bits & 0x8000U) << 16U);
}

}  // namespace millrace::decode
