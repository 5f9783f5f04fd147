#include "decode/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "decode/detail/npy_header.h"
#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

// Reads values of any type one by one.
class Reader {
 public:
  explicit Reader(const NpyArray& array) : array_(array) {}

  bool floats() const { return array_.kind == 'f'; }

  double number(std::size_t index) const {
    if (!floats()) {
      return array_.kind == 'i' ? static_cast<double>(signed_at(index))
                                : static_cast<double>(bits(index));
    }
    if (array_.item_size == 8) return std::bit_cast<double>(bits(index));
    if (array_.item_size == 4) {
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits(index))));
    }
    return static_cast<double>(from_float16(static_cast<std::uint16_t>(bits(index))));
  }

  std::int64_t integer(std::size_t index) const {
    if (array_.kind == 'i') return signed_at(index);
    const std::uint64_t value = bits(index);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw Error(ErrorCode::kCorrupt, "npy: an integer does not fit into int64");
    }
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t bits(std::size_t index) const {
    const std::byte* p = array_.data.data() + index * array_.item_size;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < array_.item_size; ++i) {
      const std::size_t at = array_.big_endian ? array_.item_size - 1 - i : i;
      value |= static_cast<std::uint64_t>(p[at]) << (8 * i);
    }
    return value;
  }

  std::int64_t signed_at(std::size_t index) const {
    const auto unused = static_cast<int>(64 - 8 * array_.item_size);
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): item_size is at least 1.
    return static_cast<std::int64_t>(bits(index) << unused) >> unused;
  }

  const NpyArray& array_;
};

// Steps through the array in C order; returns the offset of each value.
class Order {
 public:
  explicit Order(const NpyArray& array) : index_(array.shape.size()), shape_(array.shape) {
    std::int64_t step = 1;
    strides_.resize(shape_.size());
    for (std::size_t k = 0; k < shape_.size(); ++k) {
      const std::size_t axis = array.fortran_order ? k : shape_.size() - 1 - k;
      strides_[axis] = step;
      step *= shape_[axis];
    }
  }

  std::size_t at() const { return static_cast<std::size_t>(offset_); }

  void next() {
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      offset_ += strides_[axis];
      if (++index_[axis] < shape_[axis]) return;
      offset_ -= strides_[axis] * shape_[axis];
      index_[axis] = 0;
    }
  }

 private:
  std::vector<std::int64_t> index_;
  std::vector<std::int64_t> strides_;
  const std::vector<std::int64_t>& shape_;
  std::int64_t offset_ = 0;
};

template <typename T, typename Convert>
void write_all(const NpyArray& array, std::span<std::byte> slot, Convert convert) {
  Order order(array);
  const auto count = static_cast<std::size_t>(array.num_values());
  for (std::size_t i = 0; i < count; ++i, order.next()) {
    const T value = convert(order.at());
    std::memcpy(slot.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
T fitted(std::int64_t value, DType dtype) {
  if (value < 0 || value > std::numeric_limits<T>::max()) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("npy: {} does not fit into {}", value, dtype_name(dtype)));
  }
  return static_cast<T>(value);
}

float float_of(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isinf(rounded) && std::isfinite(value))
    throw Error(ErrorCode::kCorrupt, fmt::format("npy: {} is beyond float32", value));
  return rounded;
}

/// A float that is rounded to 16 bits as `value` itself would be: to the odd one of the two beside
/// it (Boldo and Melquiond, 2008).
float odd_float_of(double value) {
  const float nearest = float_of(value);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == value) return nearest;
  const bool beyond = std::abs(static_cast<double>(nearest)) > std::abs(value);
  const float towards_zero = beyond ? std::nextafter(nearest, 0.0F) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(towards_zero) | 1U);
}

std::uint16_t half_of(double value) {
  const std::uint16_t half = to_float16(odd_float_of(value));
  if (std::isinf(from_float16(half)) && std::isfinite(value))
    throw Error(ErrorCode::kCorrupt, fmt::format("npy: {} is beyond float16", value));
  return half;
}

}  // namespace

std::int64_t NpyArray::num_values() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

NpyArray parse_npy(const io::Bytes& field) {
  std::size_t offset = 0;
  NpyArray array = detail::read_npy_header(field.text(), offset);
  const auto size = static_cast<std::size_t>(array.num_values()) * array.item_size;
  if (field.size() - offset < size) {
    throw Error(ErrorCode::kTruncated, "npy: fewer values than its shape has", {.offset = offset});
  }
  array.data = field.slice(offset, size);
  return array;
}

void copy_npy(const NpyArray& array, const ArraySpec& spec, std::span<std::byte> slot) {
  MILLRACE_CHECK(slot.size() == spec.num_bytes(), "the slot holds exactly one array");
  if (array.shape != spec.shape) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("npy of shape ({}), not ({})", fmt::join(array.shape, ", "),
                            fmt::join(spec.shape, ", ")));
  }
  const Reader reader(array);
  const bool to_integers =
      spec.dtype == DType::kInt64 || spec.dtype == DType::kUInt16 || spec.dtype == DType::kUInt8;
  if (reader.floats() && to_integers) {
    throw Error(ErrorCode::kUnsupported, "npy: floats where integers are asked for");
  }
  switch (spec.dtype) {
    case DType::kUInt8:
      return write_all<std::uint8_t>(array, slot, [&](std::size_t i) {
        return fitted<std::uint8_t>(reader.integer(i), spec.dtype);
      });
    case DType::kUInt16:
      return write_all<std::uint16_t>(array, slot, [&](std::size_t i) {
        return fitted<std::uint16_t>(reader.integer(i), spec.dtype);
      });
    case DType::kInt64:
      return write_all<std::int64_t>(array, slot, [&](std::size_t i) { return reader.integer(i); });
    case DType::kFloat32:
      return write_all<float>(array, slot,
                              [&](std::size_t i) { return float_of(reader.number(i)); });
    case DType::kBFloat16:
      return write_all<std::uint16_t>(
          array, slot, [&](std::size_t i) { return to_bfloat16(odd_float_of(reader.number(i))); });
    case DType::kFloat16:
      return write_all<std::uint16_t>(array, slot,
                                      [&](std::size_t i) { return half_of(reader.number(i)); });
  }
}

}  // namespace millrace::decode
