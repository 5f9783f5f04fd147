// Flat buffers as Eigen arrays: a whole span as one array, or in chunks of 16 floats.
//
// Chunks are for what Eigen does badly with whole arrays: several arrays written in one pass over
// memory (an optimizer's rule), and sums. A chunk has a fixed size, so that Eigen unrolls it into
// whole packets and keeps it in registers, and every float is computed by the same code wherever
// the buffer begins and wherever a range of it ends: an array whose size is not known to the
// compiler has a scalar head and tail instead, which round exp() and fused multiply-adds
// differently from packets. Hence the same bits for any number of threads and replicas.
//
// The packets are those of the instruction set that millrace is compiled for. They are not the
// bottleneck: Adam over 47 MB of weights takes 9.9 ms with SSE2's packets and 9.0 ms with AVX2's,
// at the machine's memory bandwidth (bench/README.md), so this code is built once, not once per
// instruction set.
//
// Threads: functions.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>

namespace millrace::trainer::flat {

inline constexpr std::size_t kChunk = 16;

template <typename T>
using Chunk = Eigen::Array<T, static_cast<int>(kChunk), 1>;

/// Eigen's map of a span of T as an Array type; of const values if T is const.
template <typename T, typename Array>
using MapOf = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Array, Array>>;

/// All of `values`. For expressions with one result per float, without exp() and the like.
template <typename T>
auto whole(std::span<T> values) {
  using Array = Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  return MapOf<T, Array>(values.data(), static_cast<Eigen::Index>(values.size()));
}

namespace detail {

template <typename T>
using ChunkMap = MapOf<T, Chunk<std::remove_const_t<T>>>;

/// Fewer values than a chunk's, with zeros behind them.
template <typename T>
class PaddedTail {
 public:
  explicit PaddedTail(std::span<T> values) : values_(values) {
    chunk_.setZero();
    chunk_.head(size()) = whole(values);
  }
  ChunkMap<T> map() { return ChunkMap<T>(chunk_.data()); }
  void store() {
    if constexpr (!std::is_const_v<T>) whole(values_) = chunk_.head(size());
  }

 private:
  Eigen::Index size() const { return static_cast<Eigen::Index>(values_.size()); }

  std::span<T> values_;
  Chunk<std::remove_const_t<T>> chunk_;
};

}  // namespace detail

/// Calls visit(map, ...) for each chunk of equally long spans, with one map per span; the rest
/// comes last, padded with zeros, and only its own values are written back.
template <typename Visit, typename... T>
void for_each_chunk(const Visit& visit, std::span<T>... values) {
  const std::size_t size = std::get<0>(std::tuple(values.size()...));
  const std::size_t end = size / kChunk * kChunk;
  for (std::size_t at = 0; at < end; at += kChunk) {
    visit(detail::ChunkMap<T>(values.data() + at)...);
  }
  if (end == size) return;
  std::tuple tails(detail::PaddedTail<T>(values.subspan(end))...);
  std::apply([&](auto&... tail) { visit(tail.map()...); }, tails);
  std::apply([](auto&... tail) { (tail.store(), ...); }, tails);
}

/// The sum of value(map, ...) over equally long spans, added in double, in an order that depends on
/// their length alone. `value` returns an expression of a chunk's size, which is evaluated before
/// it is cast: Eigen 3.4 does not vectorise casts.
template <typename Value, typename... T>
double sum_over(const Value& value, std::span<const T>... values) {
  using Result = typename std::invoke_result_t<Value, detail::ChunkMap<const T>...>::Scalar;
  Chunk<double> sums = Chunk<double>::Zero();
  const std::size_t size = std::get<0>(std::tuple(values.size()...));
  const std::size_t end = size / kChunk * kChunk;
  const auto visit = [&](auto... maps) -> Chunk<double> {
    const Chunk<Result> result = value(maps...);
    return result.template cast<double>();
  };
  for_each_chunk([&](auto... maps) { sums += visit(maps...); }, values.first(end)...);
  const auto left = static_cast<Eigen::Index>(size - end);
  for_each_chunk([&](auto... maps) { sums.head(left) += visit(maps...).head(left); },
                 values.subspan(end)...);
  return sums.sum();
}

}  // namespace millrace::trainer::flat
