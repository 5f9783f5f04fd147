// ArrayView: an array in memory with its name and shape, from which Eigen's maps are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "decode/array.h"

namespace millrace::decode {

/// An array in memory, for messages with its name. Lifetime: all borrowed.
struct ArrayView {
  std::string_view name;
  DType dtype = DType::kUInt8;
  std::span<const std::int64_t> shape;
  std::span<std::byte> data;
};

/// Throws: InvalidArgument where `array` has another type, another number of dimensions (unless
/// none is given), or not as many bytes as its shape asks for.
void check_view(const ArrayView& array, DType dtype, std::optional<int> dimensions);

/// Eigen's maps of an array: include decode/eigen.h, which defines it.
template <typename T>
struct EigenView;

}  // namespace millrace::decode
