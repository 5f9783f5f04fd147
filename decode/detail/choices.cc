#include "decode/detail/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kWindowTries = 10;

// Python's round(): halves round to even.
int round_to_int(double value) { return static_cast<int>(std::nearbyint(value)); }

double between(const std::array<double, 2>& range, KeyedRng& rng) {
  return range[0] + (range[1] - range[0]) * static_cast<double>(rng.uniform());
}

// A random offset of `size` within `extent`. Requires: size <= extent.
int place(int extent, int size, KeyedRng& rng) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(extent - size) + 1));
}

class Chooser {
 public:
  Chooser(int width, int height, const SampleId& id)
      : geometry_(width, height), crop_(id.rng(Purpose::kCrop)), flip_(id.rng(Purpose::kFlip)) {}

  const Geometry& geometry() const { return geometry_; }

  void operator()(const ResizeShort& t) { (*this)(ResizeCover{t.size, t.size}); }

  void operator()(const ResizeCover& t) {
    const int width = geometry_.width();
    const int height = geometry_.height();
    if (std::int64_t{width} * t.height <= std::int64_t{height} * t.width) {
      geometry_.resize(t.width, scaled(t.width, height, width));
    } else {
      geometry_.resize(scaled(t.height, width, height), t.height);
    }
  }

  void operator()(const Resize& t) {
    if (t.width == 0) return (*this)(ResizeShort{t.height});
    geometry_.resize(t.width, t.height);
  }

  void operator()(const CenterCrop& t) {
    geometry_.crop({centred(geometry_.width(), t.width), centred(geometry_.height(), t.height),
                    t.width, t.height});
  }

  void operator()(const RandomCrop& t) {
    const int width = geometry_.width() + 2 * t.padding;
    const int height = geometry_.height() + 2 * t.padding;
    if (t.width > width || t.height > height) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the image ({} x {} with its padding) is smaller than the crop "
                              "({} x {})",
                              width, height, t.width, t.height));
    }
    const int y = place(height, t.height, crop_) - t.padding;
    const int x = place(width, t.width, crop_) - t.padding;
    geometry_.crop({x, y, t.width, t.height});
  }

  void operator()(const RandomResizedCrop& t) {
    geometry_.crop(random_window(t));
    geometry_.resize(t.size.width, t.size.height);
  }

  void operator()(const RandomHorizontalFlip& t) {
    if (static_cast<double>(flip_.uniform()) < t.probability) geometry_.flip();
  }

  void operator()(const ColorJitter&) {}
  void operator()(const Normalize&) {}

 private:
  // Of a side if the other one becomes `size`. At least 1; torchvision fails on such thin images.
  static int scaled(int size, int side_before, int other_before) {
    const double side = static_cast<double>(size) * side_before / other_before;
    if (side > 65535) throw Error(ErrorCode::kUnsupported, "the image is too narrow to resize");
    return std::max(1, static_cast<int>(side));
  }

  static int centred(int extent, int size) {
    if (size > extent) return -((size - extent) / 2);
    return round_to_int((extent - size) / 2.0);
  }

  Box random_window(const RandomResizedCrop& t) {
    const int width = geometry_.width();
    const int height = geometry_.height();
    const double area = static_cast<double>(width) * height;
    const std::array log_ratio = {std::log(t.aspect_ratio[0]), std::log(t.aspect_ratio[1])};
    for (int i = 0; i < kWindowTries; ++i) {
      const double target = area * between(t.area, crop_);
      const double ratio = std::exp(between(log_ratio, crop_));
      const int w = round_to_int(std::sqrt(target * ratio));
      const int h = round_to_int(std::sqrt(target / ratio));
      if (w <= 0 || w > width || h <= 0 || h > height) continue;
      const int y = place(height, h, crop_);
      const int x = place(width, w, crop_);
      return {x, y, w, h};
    }
    return central_window(width, height, t.aspect_ratio);
  }

  // The largest centred window whose aspect ratio is within the range.
  static Box central_window(int width, int height, const std::array<double, 2>& ratios) {
    const double ratio = static_cast<double>(width) / height;
    int w = width;
    int h = height;
    if (ratio < ratios[0]) h = std::min(height, round_to_int(w / ratios[0]));
    if (ratio > ratios[1]) w = std::min(width, round_to_int(h * ratios[1]));
    w = std::max(w, 1);
    h = std::max(h, 1);
    return {(width - w) / 2, (height - h) / 2, w, h};
  }

  Geometry geometry_;
  KeyedRng crop_;
  KeyedRng flip_;
};

}  // namespace

Geometry choose_geometry(std::span<const Transform> transforms, int width, int height,
                         const SampleId& id) {
  Chooser chooser(width, height, id);
  for (const Transform& transform : transforms) std::visit(chooser, transform);
  return chooser.geometry();
}

}  // namespace millrace::decode::detail
