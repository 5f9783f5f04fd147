#include "tools/dense_output.h"

#include <algorithm>
#include <cmath>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

/// For each output pixel of a side: its two input pixels, and its distance from the first.
struct Side {
  std::vector<std::size_t> low;
  std::vector<std::size_t> high;
  std::vector<float> share;

  /// Of `content` pixels from `first` on.
  Side(int first, int content, int size) {
    for (int i = 0; i < size; ++i) {
      const double at = std::clamp((i + 0.5) * content / size - 0.5, 0.0, content - 1.0);
      const int below = static_cast<int>(at);
      low.push_back(static_cast<std::size_t>(first + below));
      high.push_back(static_cast<std::size_t>(first + std::min(below + 1, content - 1)));
      share.push_back(static_cast<float>(at - below));
    }
  }
};

/// Computes rows of resized planes, one at a time.
class Resizer {
 public:
  Resizer(const DensePlanes& planes, const decode::Extent& to)
      : planes_(planes),
        rows_(planes.content.y, planes.content.height, to.height),
        columns_(planes.content.x, planes.content.width, to.width),
        area_(static_cast<std::size_t>(planes.canvas.height) *
              static_cast<std::size_t>(planes.canvas.width)) {
    for (std::size_t plane = 0; plane < num_planes(); ++plane)
      for (int y = 0; y < planes.content.height; ++y) check(content_row(plane, y));
  }

  std::size_t num_planes() const { return planes_.values.size() / area_; }

  void row(std::size_t plane, std::size_t y, std::span<float> out) const {
    const auto width = static_cast<std::size_t>(planes_.canvas.width);
    const float* values = planes_.values.data() + plane * area_;
    const float* upper = values + rows_.low[y] * width;
    const float* lower = values + rows_.high[y] * width;
    const float down = rows_.share[y];
    for (std::size_t x = 0; x < out.size(); ++x) {
      const std::size_t left = columns_.low[x];
      const std::size_t right = columns_.high[x];
      const float across = columns_.share[x];
      const float above = upper[left] + across * (upper[right] - upper[left]);
      const float below = lower[left] + across * (lower[right] - lower[left]);
      out[x] = above + down * (below - above);
    }
  }

 private:
  static void check(std::span<const float> values) {
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return;
    throw Error(ErrorCode::kCorrupt, "the model's output holds a value that is not a number");
  }

  std::span<const float> content_row(std::size_t plane, int y) const {
    const decode::Box& content = planes_.content;
    const auto row = static_cast<std::size_t>(content.y + y);
    return planes_.values.subspan(plane * area_ +
                                      row * static_cast<std::size_t>(planes_.canvas.width) +
                                      static_cast<std::size_t>(content.x),
                                  static_cast<std::size_t>(content.width));
  }

  DensePlanes planes_;
  Side rows_;
  Side columns_;
  std::size_t area_;
};

}  // namespace

decode::ClassImage classes_of(const DensePlanes& planes, const decode::Extent& to) {
  const Resizer resizer(planes, to);
  const auto width = static_cast<std::size_t>(to.width);
  decode::ClassImage image{.height = to.height, .width = to.width, .labels = {}};
  image.labels.resize(width * static_cast<std::size_t>(to.height));
  std::vector<float> best(width);
  std::vector<float> row(width);
  for (std::size_t y = 0; y < static_cast<std::size_t>(to.height); ++y) {
    const std::span<std::int64_t> labels = std::span(image.labels).subspan(y * width, width);
    resizer.row(0, y, best);
    for (std::size_t plane = 1; plane < resizer.num_planes(); ++plane) {
      resizer.row(plane, y, row);
      for (std::size_t x = 0; x < width; ++x) {
        if (!(row[x] > best[x])) continue;
        best[x] = row[x];
        labels[x] = static_cast<std::int64_t>(plane);
      }
    }
  }
  return image;
}

std::vector<float> values_of(const DensePlanes& planes, const decode::Extent& to) {
  const Resizer resizer(planes, to);
  const auto width = static_cast<std::size_t>(to.width);
  std::vector<float> values(width * static_cast<std::size_t>(to.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(to.height); ++y)
    resizer.row(0, y, std::span(values).subspan(y * width, width));
  return values;
}

std::uint8_t depth_level(float share) {
  if (std::isnan(share)) return 0;
  return static_cast<std::uint8_t>(std::lround(255.0F * std::clamp(share, 0.0F, 1.0F)));
}

std::int64_t stored_level(float depth, const decode::GreyValues& levels) {
  constexpr float kLargest = 65535;
  const auto one = static_cast<float>(levels.one > 0 ? levels.one : 255);
  const std::int64_t level = std::lround(std::clamp(depth * one, 0.0F, kLargest));
  if (level != levels.none) return level;
  return level > 0 ? level - 1 : 1;
}

}  // namespace millrace::tools
