// Geometry: a sample's crops, resizes and flips folded into as few resampling passes as possible.
//
// A stage takes a box of its input, resizes it to (height, width) and shows a window of the result,
// with zeros where the window extends beyond it. A crop moves the window; a resize starts a new
// stage only if the last one already resizes. Flips commute with both and are applied once, at the
// end.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "decode/codec.h"

namespace millrace::decode {

struct Stage {
  Box source = {};  ///< box of the input
  int width = 0;    ///< size of the source after the resize
  int height = 0;
  Box window = {};  ///< part of the resized source

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
  /// together with padding. May be empty.
  Box content() const;

  /// Keeps `box` of the current picture; anything outside the picture is zero.
  void crop(Box box);
  void resize(int width, int height);
  /// Left and right.
  void flip() { flipped_ = !flipped_; }
  void flip_vertically() { flipped_vertically_ = !flipped_vertically_; }

 private:
  const Stage& last() const { return stages_[num_stages_ - 1]; }
  Stage& last() { return stages_[num_stages_ - 1]; }
  void add_stage();

  std::array<Stage, kMaxStages> stages_ = {};
  std::size_t num_stages_ = 1;
  bool flipped_ = false;
  bool flipped_vertically_ = false;
};

}  // namespace millrace::decode
