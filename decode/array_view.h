// ArrayView: an array in memory with its name and shape, the basis of Eigen's maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "decode/array.h"

namespace millrace::decode {

/// An array in memory; `name` is for messages. Lifetime: everything is borrowed.
struct ArrayView {
  std::string_view name;
  DType dtype = DType::kUInt8;
  std::span<const std::int64_t> shape;
  std::span<std::byte> data;
};

/// Throws: InvalidArgument if `array` has another type, another number of dimensions (if that is
/// given), or a number of bytes that does not match its shape.
void check_view(const ArrayView& array, DType dtype, std::optional<int> dimensions);

/// Makes Eigen's maps of an array; defined in decode/eigen.h.
template <typename T>
struct EigenView;

}  // namespace millrace::decode
