#include "decode/detail/projections.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace millrace::decode::detail {
namespace {

constexpr double kRadian = std::numbers::pi / 180;

/// Sines and cosines of right angles are exact, so that such turns move whole pixels.
double exact_to_15_digits(double value) { return std::nearbyint(value * 1e15) / 1e15; }

using Equations = std::array<std::array<double, 9>, 8>;  // eight unknowns, and the right-hand side

/// Gauss's elimination, with the largest pivot of each column.
std::array<double, 8> solve(Equations rows) {
  for (std::size_t i = 0; i < 8; ++i) {
    const auto largest = std::max_element(
        rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
        [i](const auto& a, const auto& b) { return std::abs(a[i]) < std::abs(b[i]); });
    std::iter_swap(rows.begin() + static_cast<std::ptrdiff_t>(i), largest);
    for (std::size_t other = 0; other < 8; ++other) {
      if (other == i) continue;
      const double factor = rows[other][i] / rows[i][i];
      for (std::size_t k = i; k < 9; ++k) rows[other][k] -= factor * rows[i][k];
    }
  }
  std::array<double, 8> solution;
  for (std::size_t i = 0; i < 8; ++i) solution[i] = rows[i][8] / rows[i][i];
  return solution;
}

}  // namespace

Projection affine_projection(const Affine& affine) {
  const double turn = affine.angle * kRadian;
  const double along = affine.shear.x * kRadian;
  const double across = affine.shear.y * kRadian;
  // The forward map is rotation x shear x scale; this is its inverse.
  const double a = std::cos(turn - across) / std::cos(across);
  const double b = -std::cos(turn - across) * std::tan(along) / std::cos(across) - std::sin(turn);
  const double c = std::sin(turn - across) / std::cos(across);
  const double d = -std::sin(turn - across) * std::tan(along) / std::cos(across) + std::cos(turn);
  const double s = affine.scale;
  const Projection back = {{d / s, -b / s, 0, -c / s, a / s, 0, 0, 0, 1}};
  const auto& [x, y] = affine.centre;
  return Projection::shift(x, y) * back * Projection::shift(-x - affine.move.x, -y - affine.move.y);
}

Projection rotation(double degrees, int width, int height) {
  const double cosine = exact_to_15_digits(std::cos(-degrees * kRadian));
  const double sine = exact_to_15_digits(std::sin(-degrees * kRadian));
  const Projection turn = {{cosine, sine, 0, -sine, cosine, 0, 0, 0, 1}};
  const double x = width / 2.0;
  const double y = height / 2.0;
  return Projection::shift(x, y) * turn * Projection::shift(-x, -y);
}

Projection perspective(const std::array<Point, 4>& from, const std::array<Point, 4>& to) {
  Equations rows = {};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& [x, y] = to[i];
    const auto& [u, v] = from[i];
    rows[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    rows[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  const auto m = solve(rows);
  return {{m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], 1}};
}

}  // namespace millrace::decode::detail
