#include "tests/decode/photo.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "io/base/rng.h"

namespace millrace::testing {
namespace {

constexpr int kOctaves = 7;
constexpr int kDiscs = 12;
constexpr float kGrain = 23.0F;

struct Canvas {
  int height;
  int width;
  std::vector<float> values;

  float* at(int y, int x) {
    return &values[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                    static_cast<std::size_t>(x)) *
                   3];
  }
};

// Bilinear interpolation of a random grid: one octave of value noise.
void add_clouds(Canvas& canvas, int cells, float amplitude, KeyedRng& rng) {
  const auto side = static_cast<std::size_t>(cells) + 1;
  std::vector<float> grid(side * side * 3);
  for (float& value : grid) value = (rng.uniform() - 0.5F) * amplitude;
  for (int y = 0; y < canvas.height; ++y) {
    const float v = static_cast<float>(y * cells) / static_cast<float>(canvas.height);
    for (int x = 0; x < canvas.width; ++x) {
      const float u = static_cast<float>(x * cells) / static_cast<float>(canvas.width);
      const auto row = static_cast<std::size_t>(v);
      const auto column = static_cast<std::size_t>(u);
      const float dv = v - std::floor(v);
      const float du = u - std::floor(u);
      for (std::size_t c = 0; c < 3; ++c) {
        const auto node = [&](std::size_t r, std::size_t k) {
          return grid[((row + r) * side + column + k) * 3 + c];
        };
        canvas.at(y, x)[c] += (1 - dv) * ((1 - du) * node(0, 0) + du * node(0, 1)) +
                              dv * ((1 - du) * node(1, 0) + du * node(1, 1));
      }
    }
  }
}

void add_disc(Canvas& canvas, KeyedRng& rng) {
  const float cy = rng.uniform() * static_cast<float>(canvas.height);
  const float cx = rng.uniform() * static_cast<float>(canvas.width);
  const float radius = (0.03F + 0.12F * rng.uniform()) * static_cast<float>(canvas.width);
  const float shift[3] = {160 * rng.uniform() - 80, 160 * rng.uniform() - 80,
                          160 * rng.uniform() - 80};
  for (int y = 0; y < canvas.height; ++y) {
    for (int x = 0; x < canvas.width; ++x) {
      if (std::hypot(static_cast<float>(y) - cy, static_cast<float>(x) - cx) > radius) continue;
      for (std::size_t c = 0; c < 3; ++c) canvas.at(y, x)[c] += shift[c];
    }
  }
}

void add_grain(Canvas& canvas, KeyedRng& rng) {
  for (std::size_t i = 0; i < canvas.values.size(); i += 3) {
    const float grain = kGrain * rng.normal();
    for (std::size_t c = 0; c < 3; ++c) canvas.values[i + c] += grain;
  }
}

}  // namespace

decode::Image photo(int height, int width, std::uint64_t seed) {
  KeyedRng rng({.seed = seed, .purpose = Purpose::kSynthetic});
  const std::size_t size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3;
  Canvas canvas{height, width, std::vector<float>(size, 127.0F)};
  for (int octave = 1; octave <= kOctaves; ++octave) {
    add_clouds(canvas, 1 << octave, 220.0F / static_cast<float>(octave), rng);
  }
  for (int i = 0; i < kDiscs; ++i) add_disc(canvas, rng);
  add_grain(canvas, rng);
  std::vector<std::byte> pixels(size);
  std::transform(canvas.values.begin(), canvas.values.end(), pixels.begin(), [](float value) {
    return static_cast<std::byte>(std::clamp(std::lround(value), 0L, 255L));
  });
  return {height, width, 3, io::Bytes::take(std::move(pixels))};
}

decode::Image grey(const decode::Image& image) {
  std::vector<std::byte> pixels;
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.row(y);
    for (std::size_t i = 0; i < row.size(); i += 3) {
      pixels.push_back(static_cast<std::byte>(
          (row[i] * 299 + row[i + 1] * 587 + row[i + 2] * 114 + 500) / 1000));
    }
  }
  return {image.height, image.width, 1, io::Bytes::take(std::move(pixels))};
}

}  // namespace millrace::testing
