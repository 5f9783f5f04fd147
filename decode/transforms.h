// Transforms: operations on an image between decoding and its slot, as plain structs.
//
// Names, defaults and formulas are torchvision's.
#pragma once

#include <array>
#include <variant>
#include <vector>

namespace millrace::decode {

/// A size in pixels; one number sets both sides.
struct Extent {
  int height = 0;
  int width = 0;

  constexpr Extent(int both) : height(both), width(both) {}  // NOLINT: 224 means 224 x 224
  constexpr Extent(int h, int w) : height(h), width(w) {}
  bool operator==(const Extent&) const = default;
};

/// Resizes so that the shorter side is `size`, keeping the aspect ratio.
struct ResizeShort {
  int size = 256;
};

/// Resizes so that the image just covers (height, width), keeping the aspect ratio: one side fits,
/// the other is as long or longer. For equal sides as ResizeShort, also in rounding.
struct ResizeCover {
  int height = 0;
  int width = 0;
};

/// Resizes to exactly (height, width); without a width, as ResizeShort.
struct Resize {
  int height = 0;
  int width = 0;
};

struct CenterCrop {
  int height = 0;
  int width = 0;
};

/// Pads each side by `padding` zeros, then takes a (height, width) window at a random position.
struct RandomCrop {
  int height = 0;
  int width = 0;
  int padding = 0;
};

/// A window of random area (a share of the image's) and random aspect ratio (width / height),
/// resized to `size`.
struct RandomResizedCrop {
  Extent size = 224;
  std::array<double, 2> area = {0.08, 1.0};
  std::array<double, 2> aspect_ratio = {3.0 / 4.0, 4.0 / 3.0};
};

struct RandomHorizontalFlip {
  double probability = 0.5;
};

/// (value / 255 - mean) / std, per channel. A single value applies to all channels.
struct Normalize {
  std::vector<float> mean = {0.0F};
  std::vector<float> std = {1.0F};

  static Normalize imagenet() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }
};

/// Random brightness, contrast and saturation, each by a factor in [1 - x, 1 + x], in random order;
/// PIL's arithmetic. Only flips and Normalize may follow it.
struct ColorJitter {
  double brightness = 0.0;
  double contrast = 0.0;
  double saturation = 0.0;
};

using Transform = std::variant<ResizeShort, ResizeCover, Resize, CenterCrop, RandomCrop,
                               RandomResizedCrop, RandomHorizontalFlip, ColorJitter, Normalize>;

}  // namespace millrace::decode
