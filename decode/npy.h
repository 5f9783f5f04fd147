// NumPy arrays: `npy` fields. Numbers and booleans only; pickled objects are refused, never read.
//
//   NpyArray array = parse_npy(field);          // refers to the field's bytes, copies nothing
//   copy_npy(array, {DType::kFloat32, {3, 4}}, slot);
//
// Source: NumPy's format description, numpy.lib.format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/array.h"
#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

struct NpyArray {
  char kind = 'f';            ///< NumPy's code: b, i, u or f
  std::size_t item_size = 4;  ///< bytes of one value: 1, 2, 4 or 8
  bool big_endian = false;
  bool fortran_order = false;  ///< the first axis varies fastest
  std::vector<std::int64_t> shape = {};
  io::Bytes data = {};

  std::int64_t num_values() const;
};

/// Copies nothing. Throws: Corrupt, Truncated, Unsupported (objects, structures, complex, text).
NpyArray parse_npy(const io::Bytes& field);

/// Writes the values, converted, in C order. Throws: Corrupt if the shape is not spec's or an
/// integer does not fit; Unsupported if floats would become integers.
void copy_npy(const NpyArray& array, const ArraySpec& spec, std::span<std::byte> slot);

}  // namespace millrace::decode
