#include "tools/create/canvas.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace millrace::tools {
namespace {

constexpr std::array<std::string_view, kNumShapeKinds> kShapeNames = {"disc", "square", "triangle",
                                                                      "ring", "cross"};

bool in_triangle(float u, float v) {
  // Equilateral, pointing up, with its corners on the unit circle.
  return v <= 0.5F && v >= -1.0F + std::abs(u) * 1.732F;
}

/// (u, v): the shape's own coordinates, in which its radius is 1.
bool inside(ShapeKind kind, float u, float v) {
  const float distance = std::hypot(u, v);
  switch (kind) {
    case ShapeKind::kDisc:
      return distance <= 0.9F;
    case ShapeKind::kSquare:
      return std::max(std::abs(u), std::abs(v)) <= 0.75F;
    case ShapeKind::kTriangle:
      return in_triangle(u, v);
    case ShapeKind::kRing:
      return distance <= 1.0F && distance >= 0.55F;
    case ShapeKind::kCross:
      return std::min(std::abs(u), std::abs(v)) <= 0.3F && std::max(std::abs(u), std::abs(v)) <= 1;
  }
  return false;
}

}  // namespace

std::string_view shape_kind_name(ShapeKind kind) {
  return kShapeNames[static_cast<std::size_t>(kind)];
}

bool covers(const Shape& shape, int x, int y) {
  const float dx = (static_cast<float>(x) + 0.5F - shape.x) / shape.radius;
  const float dy = (static_cast<float>(y) + 0.5F - shape.y) / shape.radius;
  const float c = std::cos(shape.angle);
  const float s = std::sin(shape.angle);
  return inside(shape.kind, c * dx + s * dy, c * dy - s * dx);
}

Canvas::Canvas(int height, int width)
    : height_(height),
      width_(width),
      pixels_(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3) {}

void Canvas::set(int x, int y, const Rgb& colour) {
  const std::size_t at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                          static_cast<std::size_t>(x)) *
                         3;
  for (std::size_t c = 0; c < 3; ++c)
    pixels_[at + c] = static_cast<std::uint8_t>(std::clamp(colour[c], 0, 255));
}

void Canvas::fill_noise(KeyedRng& rng, const Rgb& base, int amplitude) {
  const auto bound = 2 * static_cast<std::uint64_t>(amplitude) + 1;
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const int noise = static_cast<int>(rng.below(bound)) - amplitude;
      set(x, y, {base[0] + noise, base[1] + noise, base[2] + noise});
    }
  }
}

void Canvas::draw(const Shape& shape, const std::function<void(int x, int y)>& each) {
  const auto low = [](float centre, float radius) {
    return std::max(0, static_cast<int>(std::floor(centre - radius)));
  };
  const auto high = [](float centre, float radius, int size) {
    return std::min(size, static_cast<int>(std::ceil(centre + radius)) + 1);
  };
  for (int y = low(shape.y, shape.radius * 1.45F); y < high(shape.y, shape.radius * 1.45F, height_);
       ++y) {
    for (int x = low(shape.x, shape.radius * 1.45F);
         x < high(shape.x, shape.radius * 1.45F, width_); ++x) {
      if (!covers(shape, x, y)) continue;
      set(x, y, shape.colour);
      if (each) each(x, y);
    }
  }
}

decode::Image Canvas::image() const {
  return {.height = height_,
          .width = width_,
          .channels = 3,
          .pixels = io::Bytes::copy_of(std::as_bytes(std::span(pixels_)))};
}

}  // namespace millrace::tools
