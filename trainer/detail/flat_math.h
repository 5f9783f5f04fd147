// Arithmetic on flat buffers: what optimizers, replicas and checkpoints do to them, in Eigen.
//
// Results have the same bits however the buffer is cut into ranges, except sums, which depend on
// their range. bench/flat_math.cc compares each function with the loop it replaced.
//
// Threads: functions.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::trainer::flat {

/// into += values.
void add(std::span<float> into, std::span<const float> values);
void add(std::span<double> into, std::span<const double> values);
/// into = sources[0] + sources[1] + ... in this order; `into` may be one of them. Each source has
/// as many values as `into`.
void sum(std::span<float> into, std::span<const float* const> sources);
void sum(std::span<double> into, std::span<const double* const> sources);
void scale(std::span<float> values, float factor);
/// Clamps to [-bound, bound]; NaN stays NaN.
void clamp(std::span<float> values, float bound);
/// ema = decay * ema + (1 - decay) * values.
void update_ema(std::span<float> ema, std::span<const float> values, float decay);

/// The sum, added in double.
double total(std::span<const float> values);
/// The sum of squares, likewise.
double square_sum(std::span<const float> values);
/// Of scale * values, each product rounded to float first.
double square_sum(std::span<const float> values, float scale);
bool all_finite(std::span<const float> values);

/// Rounds to the nearest bf16 values, in place; ties to even, NaN stays NaN.
void round_to_bf16(std::span<float> values);

}  // namespace millrace::trainer::flat
