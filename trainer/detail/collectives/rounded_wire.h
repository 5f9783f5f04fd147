// RoundedWire: floats as they are sent between processes, those in given ranges rounded to bf16.
//
//   const RoundedWire wire(rounded);
//   std::vector<std::byte> bytes(wire.bytes({0, 100}));
//   wire.pack(values, {0, 100}, bytes);     // values 0 to 99
//   wire.unpack(bytes, {0, 100}, theirs);
//
// Threads: const from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/collectives.h"

namespace millrace::trainer::detail {

class RoundedWire {
 public:
  /// `rounded`: ascending, borrowed.
  explicit RoundedWire(std::span<const ValueRange> rounded) : rounded_(rounded) {}

  std::size_t bytes(ValueRange part) const;
  /// Requires, here and below: bytes(part) bytes.
  void pack(std::span<const float> values, ValueRange part, std::span<std::byte> into) const;
  void unpack(std::span<const std::byte> from, ValueRange part, std::span<float> values) const;

 private:
  /// Calls piece(range, is_rounded) for what `part` consists of.
  template <typename Piece>
  void for_each_piece(ValueRange part, const Piece& piece) const;

  std::span<const ValueRange> rounded_;
};

}  // namespace millrace::trainer::detail
