// bf16 rounding in loops that the compiler vectorises: nearest even, NaN stays NaN.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::trainer::detail {

inline std::uint16_t round_to_bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline void to_bf16(std::span<const float> from, std::uint16_t* into) {
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = round_to_bf16_bits(from[i]);
}

inline void round_values_to_bf16(std::span<float> values) {
  for (float& value : values) value = bf16_to_float(round_to_bf16_bits(value));
}

}  // namespace millrace::trainer::detail
