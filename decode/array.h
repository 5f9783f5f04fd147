// DType, Layout and ArraySpec: what a decoded field looks like in memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::decode {

enum class DType { kUInt8, kUInt16, kInt64, kFloat32, kBFloat16, kFloat16 };

/// Size of one value in bytes.
std::size_t dtype_size(DType dtype);
std::string_view dtype_name(DType dtype);

/// The order of an image's axes: height, width, channels, or channels, height, width.
enum class Layout { kHWC, kCHW };

/// The shape and type of one sample's array, outermost axis first, densely packed.
struct ArraySpec {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;

  std::int64_t num_values() const;
  std::size_t num_bytes() const;
};

/// float32 to bfloat16's bits: rounds to nearest even; NaN stays NaN.
std::uint16_t to_bfloat16(float value);
inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// float32 to float16's bits (IEEE 754's binary16): rounds to nearest even, as F16C does; what is
/// 65520 or more becomes infinity, NaN stays NaN.
std::uint16_t to_float16(float value);
float from_float16(std::uint16_t bits);

}  // namespace millrace::decode
