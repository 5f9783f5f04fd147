#include "decode/detail/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace millrace::decode::detail {
namespace {

constexpr int kFractionBits = 10;
constexpr int kFraction = 1 << kFractionBits;

struct Place {
  double x = 0;
  double y = 0;
};

/// Where a pixel's middle is in the source.
Place place_of(const Projection& where, int x, int y) {
  const auto& m = where.map;
  const double px = x + 0.5;
  const double py = y + 0.5;
  const double u = m[0] * px + m[1] * py + m[2];
  const double v = m[3] * px + m[4] * py + m[5];
  if (where.is_affine()) return {u, v};
  const double w = m[6] * px + m[7] * py + m[8];
  return {u / w, v / w};
}

/// The source as its pixels are looked up, by their place in it. If nothing of it was needed, it is
/// empty.
template <int kChannels>
class Source {
 public:
  Source(const PixelView& input, const Box& box)
      : input_(input),
        left_(box.x - input.box.x),
        top_(box.y - input.box.y),
        width_(input.box.width > 0 && input.box.height > 0 ? box.width : 0),
        height_(width_ > 0 ? box.height : 0) {}

  int width() const { return width_; }
  int height() const { return height_; }
  std::size_t stride() const { return input_.stride; }
  /// Whether this place is in the picture.
  bool holds(const Place& place) const {
    return place.x >= 0 && place.x < width_ && place.y >= 0 && place.y < height_;
  }
  /// Whether `reach` pixels from this one on, in both directions, are there.
  bool holds(int x, int y, int reach) const {
    return x >= 0 && y >= 0 && x + reach < width_ && y + reach < height_;
  }
  /// Requires: the pixel is there.
  const std::uint8_t* of(int x, int y) const {
    return input_.row(top_ + y) + std::ptrdiff_t{left_ + x} * kChannels;
  }
  /// Of the nearest pixel that there is.
  const std::uint8_t* at(int x, int y) const {
    return of(std::clamp(x, 0, width_ - 1), std::clamp(y, 0, height_ - 1));
  }

 private:
  const PixelView& input_;
  int left_;
  int top_;
  int width_;
  int height_;
};

template <int kChannels>
void pick_nearest(const Source<kChannels>& source, const Place& place, std::uint8_t* out) {
  const auto* in = source.of(static_cast<int>(place.x), static_cast<int>(place.y));
  for (int c = 0; c < kChannels; ++c) out[c] = in[c];
}

/// A place between middles of pixels, in fixed point, so that a place that is off a middle by a
/// rounding error is that pixel's. Requires: at >= 0.
int fixed_place(double at) {
  constexpr double kRounded = 0.5 + 0.5 / kFraction;
  return static_cast<int>((at + kRounded) * kFraction) - kFraction;  // without floor(): a call
}

template <int kChannels>
void pick_bilinear(const Source<kChannels>& source, const Place& place, std::uint8_t* out) {
  const int x = fixed_place(place.x);
  const int y = fixed_place(place.y);
  const int column = x >> kFractionBits;
  const int line = y >> kFractionBits;
  const int right = x & (kFraction - 1);
  const int below = y & (kFraction - 1);
  const bool is_inside = source.holds(column, line, 1);
  const auto* a = is_inside ? source.of(column, line) : source.at(column, line);
  const auto* b = is_inside ? a + kChannels : source.at(column + 1, line);
  const auto* c = is_inside ? a + source.stride() : source.at(column, line + 1);
  const auto* d = is_inside ? c + kChannels : source.at(column + 1, line + 1);
  for (int i = 0; i < kChannels; ++i) {
    const int upper = a[i] * (kFraction - right) + b[i] * right;
    const int lower = c[i] * (kFraction - right) + d[i] * right;
    const int sum = upper * (kFraction - below) + lower * below;
    out[i] =
        static_cast<std::uint8_t>((sum + (1 << (2 * kFractionBits - 1))) >> (2 * kFractionBits));
  }
}

/// Of PIL's transforms: Keys's filter with -1, which overshoots more than that of resizes.
double sharp_cubic(double x) {
  x = std::abs(x);
  return x < 1 ? (x - 2) * x * x + 1 : ((5 - x) * x - 8) * x + 4;
}

std::array<float, 4> cubic_weights(int fraction) {
  const double x = static_cast<double>(fraction) / kFraction;
  std::array<float, 4> weights;
  for (int i = 0; i < 4; ++i)
    weights[static_cast<std::size_t>(i)] = static_cast<float>(sharp_cubic(i - 1 - x));
  return weights;
}

template <int kChannels>
void pick_bicubic(const Source<kChannels>& source, const Place& place, std::uint8_t* out) {
  static const auto table = [] {
    std::array<std::array<float, 4>, kFraction> all;
    for (int i = 0; i < kFraction; ++i) all[static_cast<std::size_t>(i)] = cubic_weights(i);
    return all;
  }();
  const int x = fixed_place(place.x);
  const int y = fixed_place(place.y);
  const auto& across = table[static_cast<std::size_t>(x & (kFraction - 1))];
  const auto& down = table[static_cast<std::size_t>(y & (kFraction - 1))];
  const int column = (x >> kFractionBits) - 1;
  const int line = (y >> kFractionBits) - 1;
  const bool is_inside = source.holds(column, line, 3);
  std::array<float, kChannels> sums = {};
  for (int j = 0; j < 4; ++j) {
    std::array<float, kChannels> row = {};
    const auto* first = is_inside ? source.of(column, line + j) : nullptr;
    for (int i = 0; i < 4; ++i) {
      const auto* in = is_inside ? first + i * kChannels : source.at(column + i, line + j);
      for (std::size_t c = 0; c < kChannels; ++c)
        row[c] += across[static_cast<std::size_t>(i)] * static_cast<float>(in[c]);
    }
    for (std::size_t c = 0; c < kChannels; ++c)
      sums[c] += down[static_cast<std::size_t>(j)] * row[c];
  }
  for (std::size_t c = 0; c < kChannels; ++c)
    out[c] = static_cast<std::uint8_t>(std::clamp(sums[c] + 0.5F, 0.0F, 255.0F));
}

/// What is seen at `at` of a side that goes on beyond its ends.
double folded(double at, int size, Border border) {
  if (border == Border::kEdge || size == 1) return std::clamp(at, 0.5, size - 0.5);
  // A mirror stands on the outermost pixels' edges, or in their middles.
  const double mirror = border == Border::kReflect ? 0.5 : 0;
  const double period = 2 * (size - 2 * mirror);
  double from = std::fmod(at - mirror, period);
  if (from < 0) from += period;
  return mirror + std::min(from, period - from);
}

std::array<std::uint8_t, 4> border_colour(const Sampling& sampling, int channels, bool fills) {
  if (!fills) return {};
  const Fill& fill = sampling.fill;
  if (channels == 1) return {luma(fill.data()), 0, 0, 0};
  return {fill[0], fill[1], fill[2], 0};
}

/// One row of a stage's window, of a frame that is so wide.
struct FrameRow {
  const Sampling& sampling;
  const Sampler::How& how;
  const Box& window;
  int width;
  int y;
};

template <int kChannels, typename Pick>
void pick_row(const Source<kChannels>& source, const FrameRow& row, Pick pick, std::uint8_t* out) {
  const auto& [sampling, how, window, width, y] = row;
  const auto border = border_colour(sampling, kChannels, how.fills);
  const bool goes_on = sampling.border != Border::kConstant;
  for (int i = 0; i < window.width; ++i, out += kChannels) {
    const int x = window.x + (how.mirrored ? window.width - 1 - i : i);
    if (x < 0 || x >= width) continue;  // beyond the frame: zeros
    Place place = place_of(sampling.where, x, y);
    if (goes_on)
      place = {folded(place.x, source.width(), sampling.border),
               folded(place.y, source.height(), sampling.border)};
    if (source.holds(place))
      pick(source, place, out);
    else
      std::memcpy(out, border.data(), kChannels);
  }
}

constexpr double kReach = 3;  // pixels that an interpolation takes beside a place, and one more

/// The rows or columns that places of the window lie in, and what an interpolation takes beside.
struct Extremes {
  double least = 1e9;
  double most = -1e9;

  void add(double at) {
    least = std::min(least, at);
    most = std::max(most, at);
  }
  int begin(int size) const {
    return static_cast<int>(std::clamp(least - kReach, 0.0, static_cast<double>(size)));
  }
  int end(int size) const {
    return static_cast<int>(std::clamp(most + kReach, 0.0, static_cast<double>(size)));
  }
};

/// Whether all of a window is on the near side of the projection's horizon, and clear of it.
bool is_before_horizon(const Projection& where, const Box& window) {
  for (const int x : {window.x, window.x + window.width})
    for (const int y : {window.y, window.y + window.height})
      if (where.map[6] * x + where.map[7] * y + where.map[8] < 1e-3) return false;
  return true;
}

Box needed_box(const Sampling& sampling, const Box& window, const Box& source) {
  if (sampling.border != Border::kConstant || !is_before_horizon(sampling.where, window))
    return source;
  Extremes across;
  Extremes down;
  for (const int x : {window.x, window.x + window.width - 1})
    for (const int y : {window.y, window.y + window.height - 1}) {
      const Place corner = place_of(sampling.where, x, y);
      across.add(corner.x);
      down.add(corner.y);
    }
  const int left = across.begin(source.width);
  const int top = down.begin(source.height);
  return {source.x + left, source.y + top, std::max(0, across.end(source.width) - left),
          std::max(0, down.end(source.height) - top)};
}

}  // namespace

Box Sampler::plan(const Stage& stage, const How& how) {
  stage_ = stage;
  how_ = how;
  if (how_.interpolation == Interpolation::kLanczos) how_.interpolation = Interpolation::kBicubic;
  return needed_box(*stage.sampling, stage.window, stage.source);
}

template <int kChannels>
void Sampler::sample_row(const PixelView& input, int y, std::uint8_t* out) const {
  const Source<kChannels> source(input, stage_.source);
  const auto by = [&](auto pick) {
    pick_row(source, {*stage_.sampling, how_, stage_.window, stage_.width, y}, pick, out);
  };
  // Lambdas, not the functions: what they do is inlined into the loop.
  if (how_.interpolation == Interpolation::kNearest)
    by([](const auto& of, const Place& place, auto* to) { pick_nearest(of, place, to); });
  else if (how_.interpolation == Interpolation::kBilinear)
    by([](const auto& of, const Place& place, auto* to) { pick_bilinear(of, place, to); });
  else
    by([](const auto& of, const Place& place, auto* to) { pick_bicubic(of, place, to); });
}

const std::uint8_t* Sampler::row(const PixelView& input, int y) {
  const Box& window = stage_.window;
  const std::size_t bytes =
      static_cast<std::size_t>(window.width) * static_cast<std::size_t>(input.channels);
  std::uint8_t* line = reserve_pixels(line_, bytes);
  std::memset(line, 0, bytes);
  const int at = window.y + (how_.mirrored_vertically ? window.height - 1 - y : y);
  if (at < 0 || at >= stage_.height) return line;
  if (input.channels == 1) sample_row<1>(input, at, line);
  if (input.channels == 3) sample_row<3>(input, at, line);
  if (input.channels == 4) sample_row<4>(input, at, line);
  return line;
}

void sample_in_place(Pixels& pixels, const Sampling& sampling, Interpolation interpolation) {
  const Box whole = {0, 0, pixels.width, pixels.height};
  const std::vector<std::uint8_t> before(pixels.levels.begin(), pixels.levels.end());
  const auto stride =
      static_cast<std::size_t>(pixels.width) * static_cast<std::size_t>(pixels.channels);
  const PixelView view = {
      .data = before.data(), .stride = stride, .box = whole, .channels = pixels.channels};
  Sampler sampler;
  sampler.plan({.source = whole,
                .width = pixels.width,
                .height = pixels.height,
                .window = whole,
                .sampling = sampling},
               {.interpolation = interpolation});
  for (int y = 0; y < pixels.height; ++y)
    std::memcpy(&pixels.levels[static_cast<std::size_t>(y) * stride], sampler.row(view, y), stride);
}

}  // namespace millrace::decode::detail
