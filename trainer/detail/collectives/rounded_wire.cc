#include "trainer/detail/collectives/rounded_wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "decode/array.h"

namespace millrace::trainer::detail {

template <typename Piece>
void RoundedWire::for_each_piece(ValueRange part, const Piece& piece) const {
  std::size_t at = part.first;
  for (const auto& [begin, end] : rounded_) {
    const std::size_t first = std::clamp(begin, at, part.second);
    const std::size_t last = std::clamp(end, first, part.second);
    if (at < first) piece(ValueRange{at, first}, false);
    if (first < last) piece(ValueRange{first, last}, true);
    at = std::max(at, last);
  }
  if (at < part.second) piece(ValueRange{at, part.second}, false);
}

std::size_t RoundedWire::bytes(ValueRange part) const {
  std::size_t bytes = 0;
  for_each_piece(part, [&](ValueRange range, bool is_rounded) {
    bytes += (range.second - range.first) * (is_rounded ? sizeof(std::uint16_t) : sizeof(float));
  });
  return bytes;
}

void RoundedWire::pack(std::span<const float> values, ValueRange part,
                       std::span<std::byte> into) const {
  std::byte* to = into.data();
  for_each_piece(part, [&](ValueRange range, bool is_rounded) {
    if (!is_rounded) {
      const std::size_t size = (range.second - range.first) * sizeof(float);
      std::memcpy(to, values.data() + range.first, size);
      to += size;
      return;
    }
    for (std::size_t i = range.first; i < range.second; ++i, to += sizeof(std::uint16_t)) {
      const std::uint16_t bits = decode::to_bfloat16(values[i]);
      std::memcpy(to, &bits, sizeof(bits));
    }
  });
}

void RoundedWire::unpack(std::span<const std::byte> from, ValueRange part,
                         std::span<float> values) const {
  const std::byte* at = from.data();
  for_each_piece(part, [&](ValueRange range, bool is_rounded) {
    if (!is_rounded) {
      const std::size_t size = (range.second - range.first) * sizeof(float);
      std::memcpy(values.data() + range.first, at, size);
      at += size;
      return;
    }
    for (std::size_t i = range.first; i < range.second; ++i, at += sizeof(std::uint16_t)) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      values[i] = decode::from_bfloat16(bits);
    }
  });
}

}  // namespace millrace::trainer::detail
