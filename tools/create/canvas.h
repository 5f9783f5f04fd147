// Canvas: an RGB picture to draw shapes into, for synthetic data.
//
//   Canvas canvas(32, 32);
//   canvas.fill_noise(rng, {40, 44, 52}, 12);
//   canvas.draw({.kind = ShapeKind::kRing, .x = 15, .y = 12, .radius = 9});
//   decode::Image image = canvas.image();
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "decode/image.h"
#include "io/base/rng.h"

namespace millrace::tools {

using Rgb = std::array<int, 3>;

enum class ShapeKind { kDisc, kSquare, kTriangle, kRing, kCross };
inline constexpr int kNumShapeKinds = 5;
std::string_view shape_kind_name(ShapeKind kind);

/// Lengths in pixels; the centre is (x, y), x to the right, y down.
struct Shape {
  ShapeKind kind = ShapeKind::kDisc;
  float x = 0;
  float y = 0;
  float radius = 1;
  float angle = 0;  ///< radians
  Rgb colour = {255, 255, 255};
};

/// True if the centre of pixel (x, y) is inside `shape`.
bool covers(const Shape& shape, int x, int y);

class Canvas {
 public:
  Canvas(int height, int width);

  int height() const { return height_; }
  int width() const { return width_; }

  /// Sets every pixel to `base`, each channel plus or minus at most `amplitude`.
  void fill_noise(KeyedRng& rng, const Rgb& base, int amplitude);
  void set(int x, int y, const Rgb& colour);
  /// Paints the pixels that `shape` covers, and calls `each(x, y)`, if given, for each of them.
  void draw(const Shape& shape, const std::function<void(int x, int y)>& each = {});

  /// The picture as (H, W, 3).
  decode::Image image() const;

 private:
  int height_;
  int width_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace millrace::tools
