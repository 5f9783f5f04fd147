// Geometry: a sample's crops, resizes, turns and flips folded into as few resampling passes as
// possible.
//
// A stage takes a box of its input, makes (height, width) of it and shows a window of the result,
// with zeros where the window extends beyond it. It resizes the box, or samples it: looks up each
// pixel where a projection says (turns, shears, perspectives, padding other than with zeros). A
// crop moves the window; a resize starts a new stage only if the last one already resizes or
// samples; a projection, only if the last one resizes or has another border. Flips commute with all
// and are applied once, at the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "decode/codec.h"
#include "decode/extent.h"
#include "decode/interpolation.h"

namespace millrace::decode {

/// Where what is seen at (x, y) was before: (X / W, Y / W), with (X, Y, W) = map * (x, y, 1).
/// Coordinates begin in the upper left corner: the first pixel's middle is at (0.5, 0.5).
struct Projection {
  std::array<double, 9> map = {1, 0, 0, 0, 1, 0, 0, 0, 1};  ///< (3, 3), by rows

  static Projection shift(double x, double y) { return {{1, 0, x, 0, 1, y, 0, 0, 1}}; }
  bool is_affine() const { return map[6] == 0 && map[7] == 0 && map[8] == 1; }
};
/// The one that looks where `outer` says of where `inner` says.
Projection operator*(const Projection& outer, const Projection& inner);

/// What is seen beside a picture.
enum class Border {
  kConstant,   ///< one colour
  kEdge,       ///< its outermost pixels
  kReflect,    ///< its mirror image, without the outermost pixels: 2 1 | 0 1 2
  kSymmetric,  ///< its mirror image: 1 0 | 0 1 2
};
const ValueType& value_type(const Border&);

/// Red, green and blue of a constant border; grey pictures get their luma, and alpha is 0. Masks
/// (kNearest of a decoder) get zeros.
using Fill = std::array<std::uint8_t, 3>;

struct Sampling {
  Projection where = {};  ///< of the result, in the source
  Border border = Border::kConstant;
  Fill fill = {};

  bool is_plain() const { return border == Border::kConstant && fill == Fill{}; }
};

struct Stage {
  Box source = {};  ///< box of the input
  int width = 0;    ///< size of the source after the resize
  int height = 0;
  Box window = {};  ///< part of the resized source
  /// nullopt: the decoder's own.
  std::optional<Interpolation> interpolation = {};
  std::optional<Sampling> sampling = {};  ///< in place of the resize

  bool resizes() const { return width != source.width || height != source.height; }
};

class Geometry {
 public:
  static constexpr std::size_t kMaxStages = 4;

  /// The whole of a picture of width × height.
  Geometry(int width, int height);

  int width() const { return last().window.width; }
  int height() const { return last().window.height; }
  bool flipped() const { return flipped_; }
  bool flipped_vertically() const { return flipped_vertically_; }
  std::span<const Stage> stages() const { return {stages_.data(), num_stages_}; }
  /// The box of the result that shows the picture: what is outside of it is padding, or was resized
  /// together with padding, where stages do not say how by `own`. May be empty. Requires:
  /// !samples().
  Box content(Interpolation own = Interpolation::kBilinear) const;

  /// Whether a stage samples.
  bool samples() const;

  /// Keeps `box` of the current picture; anything outside the picture is zero.
  void crop(Box box);
  void resize(int width, int height, std::optional<Interpolation> interpolation = {});
  /// Shows `sampling` of the current picture, of width × height.
  void sample(const Sampling& sampling, int width, int height,
              std::optional<Interpolation> interpolation = {});
  /// Adds pixels on the sides.
  void pad(const Sides& sides, Border border, const Fill& fill);
  /// Left and right.
  void flip() { flipped_ = !flipped_; }
  void flip_vertically() { flipped_vertically_ = !flipped_vertically_; }

 private:
  const Stage& last() const { return stages_[num_stages_ - 1]; }
  Stage& last() { return stages_[num_stages_ - 1]; }
  void add_stage();
  bool takes(const Sampling& sampling, std::optional<Interpolation> interpolation) const;

  std::array<Stage, kMaxStages> stages_ = {};
  std::size_t num_stages_ = 1;
  bool flipped_ = false;
  bool flipped_vertically_ = false;
};

}  // namespace millrace::decode
