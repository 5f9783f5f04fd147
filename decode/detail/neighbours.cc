#include "decode/detail/neighbours.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "decode/detail/kernels.h"
#include "decode/detail/pixels.h"

namespace millrace::decode::detail {
namespace {

constexpr int kBits = 15;
constexpr int kWholeSum = 1 << kBits;

std::size_t row_bytes(const Pixels& pixels) {
  return static_cast<std::size_t>(pixels.width) * static_cast<std::size_t>(pixels.channels);
}

/// Column sums of three rows, the middle of the middle one counted five times, over 13.
std::uint8_t smoothed(const std::uint8_t* above, const std::uint8_t* here,
                      const std::uint8_t* below, std::size_t left, std::size_t at,
                      std::size_t right) {
  const unsigned sum = above[left] + above[at] + above[right] + here[left] + 5U * here[at] +
                       here[right] + below[left] + below[at] + below[right];
  return static_cast<std::uint8_t>((2 * sum + 13) / 26);
}

void sharpen_row(const std::uint8_t* above, const std::uint8_t* here, const std::uint8_t* below,
                 std::size_t channels, float factor, std::span<std::uint8_t> out) {
  for (std::size_t i = channels; i + channels < out.size(); ++i) {
    const int mean = smoothed(above, here, below, i - channels, i, i + channels);
    const float mixed = static_cast<float>(mean) + factor * static_cast<float>(here[i] - mean);
    out[i] = static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
  }
}

/// Bell-shaped, in 15-bit fixed point; their sum is exactly one, so that a flat picture stays.
std::vector<std::int16_t> bell(int size, double sigma) {
  std::vector<double> exact;
  double sum = 0;
  const int half = size / 2;
  for (int i = -half; i <= half; ++i) {
    const double x = i / sigma;
    exact.push_back(std::exp(-0.5 * x * x));
    sum += exact.back();
  }
  std::vector<std::int16_t> weights;
  int left = kWholeSum;
  for (const double weight : exact) {
    weights.push_back(static_cast<std::int16_t>(
        std::min<long>(std::lround(weight / sum * kWholeSum), kWholeSum - 1)));
    left -= weights.back();
  }
  auto& middle = weights[static_cast<std::size_t>(half)];
  middle = static_cast<std::int16_t>(std::clamp(middle + left, 0, kWholeSum - 1));
  return weights;
}

/// The place that is seen at `i` of a reflected side.
std::size_t mirrored_place(int i, int size) {
  if (size == 1) return 0;
  const int period = 2 * (size - 1);
  const int at = ((i % period) + period) % period;
  return static_cast<std::size_t>(std::min(at, period - at));
}

/// Copies row `in` to `out`, and what is seen beyond its ends, `reach` pixels each.
void reflect_ends(const std::uint8_t* in, int width, std::size_t channels, int reach,
                  std::uint8_t* out) {
  const auto put = [&](int x) {
    std::memcpy(out + static_cast<std::size_t>(reach + x) * channels,
                in + mirrored_place(x, width) * channels, channels);
  };
  for (int x = -reach; x < 0; ++x) put(x);
  std::memcpy(out + static_cast<std::size_t>(reach) * channels, in,
              static_cast<std::size_t>(width) * channels);
  for (int x = width; x < width + reach; ++x) put(x);
}

/// Blurs along the rows only, into `out`.
void blur_rows(const Pixels& pixels, const std::vector<std::int16_t>& weights, std::uint8_t* out) {
  const auto taps = static_cast<int>(weights.size());
  const auto channels = static_cast<std::size_t>(pixels.channels);
  const std::size_t stride = row_bytes(pixels);
  std::vector<std::uint8_t> buffer;
  std::uint8_t* line = reserve_pixels(buffer, stride + weights.size() * channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(pixels.height); ++y) {
    reflect_ends(&pixels.levels[y * stride], pixels.width, channels, taps / 2, line);
    blend_rows(line, channels, weights.data(), taps, kBits, out + y * stride, stride);
  }
}

/// Writes `reach` rows above and below the picture that begins at `first`.
void reflect_rows(std::uint8_t* first, int height, int reach, std::size_t stride) {
  const auto put = [&](int y) {
    std::memcpy(first + y * static_cast<std::ptrdiff_t>(stride),
                first + mirrored_place(y, height) * stride, stride);
  };
  for (int y = -reach; y < 0; ++y) put(y);
  for (int y = height; y < height + reach; ++y) put(y);
}

}  // namespace

void change_sharpness(Pixels& pixels, double factor) {
  if (pixels.height < 3) return;
  const std::size_t stride = row_bytes(pixels);
  const std::vector<std::uint8_t> before(pixels.levels.begin(), pixels.levels.end());
  for (std::size_t y = 1; y + 1 < static_cast<std::size_t>(pixels.height); ++y) {
    const std::uint8_t* here = before.data() + y * stride;
    sharpen_row(here - stride, here, here + stride, static_cast<std::size_t>(pixels.channels),
                static_cast<float>(factor), pixels.levels.subspan(y * stride, stride));
  }
}

void blur(Pixels& pixels, int kernel_size, double sigma) {
  const std::vector<std::int16_t> weights = bell(kernel_size, sigma);
  const std::size_t stride = row_bytes(pixels);
  const auto height = static_cast<std::size_t>(pixels.height);
  std::vector<std::uint8_t> buffer;
  std::uint8_t* rows =
      reserve_pixels(buffer, stride * (height + static_cast<std::size_t>(kernel_size)));
  std::uint8_t* first = rows + static_cast<std::size_t>(kernel_size / 2) * stride;
  blur_rows(pixels, weights, first);
  reflect_rows(first, pixels.height, kernel_size / 2, stride);
  for (std::size_t y = 0; y < height; ++y)
    blend_rows(rows + y * stride, stride, weights.data(), kernel_size, kBits,
               pixels.levels.data() + y * stride, stride);
}

}  // namespace millrace::decode::detail
