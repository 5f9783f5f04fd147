// StableHLO's operations on tensors, as functions and operators.
//
//   const Tensor mean = sum(x, {0, 1, 2}) / 512.0;          // (C)
//   const Tensor centred = x - along(mean, 3, x.shape);     // (N, H, W, C)
//
// A tensor without dimensions and a number are broadcast; all else has equal shapes and types,
// which is checked (a wrong call is a bug of its caller). Numbers are taken as the other operand's
// type.
//
// Threads: as builder.h's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/hlo/builder.h"

namespace millrace::trainer::hlo {

/// `value` in every place.
Tensor splat(Builder& builder, double value, Type type, const Shape& shape);
Tensor splat_like(const Tensor& like, double value);
Tensor scalar(Builder& builder, double value, Type type = Type::kFloat32);
/// Of an integer type; a number of 64 bits keeps them all.
Tensor integer(Builder& builder, std::uint64_t value, Type type);
/// Float32 values, in row-major order.
Tensor constant(Builder& builder, std::span<const float> values, const Shape& shape);
/// Each place's index along `dimension`.
Tensor iota(Builder& builder, Type type, const Shape& shape, std::int64_t dimension);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& a);
Tensor max(const Tensor& a, const Tensor& b);
Tensor max(const Tensor& a, double b);
Tensor min(const Tensor& a, const Tensor& b);
Tensor min(const Tensor& a, double b);

Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor logistic(const Tensor& x);

/// Of integers, and for flags (Type::kPred).
Tensor both(const Tensor& a, const Tensor& b);
Tensor exclusive_or(const Tensor& a, const Tensor& b);
Tensor inverse(const Tensor& a);
Tensor shift_right(const Tensor& a, std::int64_t bits);
Tensor shift_left(const Tensor& a, std::int64_t bits);

enum class Order { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };
Tensor compare(const Tensor& a, Order order, const Tensor& b);
Tensor compare(const Tensor& a, Order order, double b);
Tensor is_finite(const Tensor& x);
/// `a` where `flags`, else `b`. A flag without dimensions decides for all.
Tensor select(const Tensor& flags, const Tensor& a, const Tensor& b);
Tensor select(const Tensor& flags, const Tensor& a, double b);

/// The tensor itself if it has the type.
Tensor convert(const Tensor& x, Type type);
Tensor float32(const Tensor& x);
/// The bits as another type of the same size.
Tensor same_bits(const Tensor& x, Type type);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, const std::vector<std::int64_t>& permutation);
/// Dimension i of `x` becomes dimension `dimensions[i]` of `shape`.
Tensor broadcast(const Tensor& x, const Shape& shape, const std::vector<std::int64_t>& dimensions);
/// A vector along `dimension` of `shape`.
Tensor along(const Tensor& vector, std::int64_t dimension, const Shape& shape);
Tensor reverse(const Tensor& x, const std::vector<std::int64_t>& dimensions);
Tensor concatenate(const std::vector<Tensor>& parts, std::int64_t dimension);
/// [begin, end) of `dimension`.
Tensor slice(const Tensor& x, std::int64_t dimension, std::int64_t begin, std::int64_t end);

/// Zeros around and between: one entry per dimension; a negative edge cuts.
struct Padding {
  std::vector<std::int64_t> low, high, interior;
};
Tensor pad(const Tensor& x, const Padding& padding);

/// Over `dimensions`, which go.
Tensor sum(const Tensor& x, const std::vector<std::int64_t>& dimensions);
Tensor largest(const Tensor& x, const std::vector<std::int64_t>& dimensions);
/// Of flags.
Tensor all(const Tensor& flags, const std::vector<std::int64_t>& dimensions);
/// The same number or flag, without dimensions, computed once: XLA would repeat the operations
/// before it in each that reads it, as cheap ones, and they are not if they depend on every
/// gradient.
Tensor computed_once(const Tensor& x);
/// Every dimension.
std::vector<std::int64_t> dimensions_of(const Tensor& x);

/// Rows of a matrix, of each number in `rows`, int32, one; and the sums of those rows of `x` that
/// have a number, (count, columns): each other's gradient.
Tensor take_rows(const Tensor& matrix, const Tensor& rows);
Tensor sum_to_rows(const Tensor& x, const Tensor& rows, std::int64_t count);

/// Products of two matrices (or a tensor and a matrix), summed over one dimension of each; the
/// others stay in order, a's first. Float32, of float32 or bf16 operands.
Tensor dot(const Tensor& a, std::int64_t a_dimension, const Tensor& b, std::int64_t b_dimension);

/// Likewise of each pair of matrices of two tensors, (A, B, I, K): the first two dimensions stay.
Tensor batch_dot(const Tensor& a, std::int64_t a_dimension, const Tensor& b,
                 std::int64_t b_dimension);

/// Pairs are height, width. Dimension labels are StableHLO's: "b01f", "oi01"; the kernel's first
/// label belongs to its first dimension.
struct ConvolutionOptions {
  std::string input = "b01f";
  std::string kernel = "oi01";
  std::string output = "b01f";
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> low = {0, 0};
  std::array<std::int64_t, 2> high = {0, 0};
  std::array<std::int64_t, 2> input_dilation = {1, 1};
  std::array<std::int64_t, 2> kernel_dilation = {1, 1};
  std::int64_t feature_groups = 1;
  std::int64_t batch_groups = 1;
};
/// Float32, of float32 or bf16 operands.
Tensor convolution(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options);

/// Windows over the height and width of (N, H, W, C).
struct Window {
  std::array<std::int64_t, 2> size = {1, 1};
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> low = {0, 0};
  std::array<std::int64_t, 2> high = {0, 0};
};
Tensor window_sum(const Tensor& x, const Window& window);
Tensor window_max(const Tensor& x, const Window& window);
/// Adds each value of `source`, one per window, where the window's first largest value of `x` is.
Tensor scatter_to_max(const Tensor& x, const Tensor& source, const Window& window);

/// The sum over all replicas, the same on each; the tensor itself if there is one replica.
Tensor sum_over_replicas(const Tensor& x);
/// All replicas' along the first dimension, in the replicas' order; likewise.
Tensor gather_over_replicas(const Tensor& x);
/// Which replica this is: int32, without dimensions.
Tensor own_replica(Builder& builder);

}  // namespace millrace::trainer::hlo
