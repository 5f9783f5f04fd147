// Eigen's maps of millrace's arrays, without a copy: fields of batches, outputs of models.
//
// The only header that includes Eigen; without it the calls below do not compile (EigenView is
// incomplete). A map's scalar is the array's own type, checked when the map is made:
// Eigen::bfloat16, Eigen::half, float, std::int64_t or std::uint8_t.
//
//   #include "decode/eigen.h"
//   auto pixels = batch.field("image").tensor<Eigen::bfloat16, 4>();  // (N, H, W, C)
//   auto labels = batch.field("label").vector<std::int64_t>();        // (N)
//   auto logits = plan.output(0).matrix<float>();                     // (N, K)
//   logits.rowwise().maxCoeff() ...
//
// Lifetime: a map is valid as long as the batch or the plan's outputs that it refers to. Threads:
// as those.
#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <unsupported/Eigen/CXX11/Tensor>
#include <utility>

#include "decode/array_view.h"

namespace millrace::decode {

template <typename T, int Rank>
using TensorMap = Eigen::TensorMap<Eigen::Tensor<T, Rank, Eigen::RowMajor, std::ptrdiff_t>>;
template <typename T>
using MatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <typename T>
using VectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

/// The DType of arrays of T.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DType::kUInt16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, Eigen::bfloat16>) return DType::kBFloat16;
  if constexpr (std::is_same_v<T, Eigen::half>) return DType::kFloat16;
  static_assert(std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t> ||
                    std::is_same_v<T, std::int64_t> || std::is_same_v<T, float> ||
                    std::is_same_v<T, Eigen::bfloat16> || std::is_same_v<T, Eigen::half>,
                "arrays hold std::uint8_t, std::uint16_t, std::int64_t, float, Eigen::bfloat16 or "
                "Eigen::half");
}

/// Makes the maps. Throws: InvalidArgument, naming the array, if type or rank do not match.
template <typename T>
struct EigenView {
  /// Row-major: the last index varies fastest.
  template <int Rank>
  static TensorMap<T, Rank> tensor(const ArrayView& array) {
    check_view(array, dtype_of<T>(), Rank);
    std::array<std::ptrdiff_t, Rank> sizes;
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = array.shape[i];
    return TensorMap<T, Rank>(values(array), sizes);
  }

  /// (N, values per sample), for any rank from 1.
  static MatrixMap<T> matrix(const ArrayView& array) {
    check_view(array, dtype_of<T>(), {});
    const std::int64_t rows = array.shape[0];
    const auto count = static_cast<std::int64_t>(array.data.size() / sizeof(T));
    return MatrixMap<T>(values(array), rows, rows == 0 ? 0 : count / rows);
  }

  /// For an array of rank 1.
  static VectorMap<T> vector(const ArrayView& array) {
    check_view(array, dtype_of<T>(), 1);
    return VectorMap<T>(values(array), array.shape[0]);
  }

 private:
  static T* values(const ArrayView& array) { return reinterpret_cast<T*>(array.data.data()); }
};

}  // namespace millrace::decode
