#include "tools/view/picture_facts.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/base/hash.h"

namespace millrace::tools {
namespace {

// For sharpness.
constexpr int kSharpnessSide = 256;
// Of pictures that look alike, per cell of the coarse copy.
constexpr int kAlikeLevels = 4;

/// What a pixel or cell of a smaller picture covers of `whole` pixels, at least one of them.
struct Extent {
  int from = 0;
  int to = 0;

  Extent(int cell, int cells, int whole)
      : from(static_cast<int>(std::int64_t{cell} * whole / cells)),
        to(std::max(from + 1, static_cast<int>((std::int64_t{cell} + 1) * whole / cells))) {}
};

std::uint8_t mean_of(const decode::Image& image, const Extent& across, const Extent& down,
                     int channel) {
  std::uint64_t sum = 0;
  for (int y = down.from; y < down.to; ++y) {
    const auto row = image.row(y);
    for (int x = across.from; x < across.to; ++x)
      sum += row[static_cast<std::size_t>(x * image.channels + channel)];
  }
  const auto count = static_cast<std::uint64_t>(across.to - across.from) *
                     static_cast<std::uint64_t>(down.to - down.from);
  return static_cast<std::uint8_t>((sum + count / 2) / count);
}

decode::Image reduced_to(const decode::Image& image, int width, int height) {
  std::vector<std::byte> pixels;
  pixels.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                 static_cast<std::size_t>(image.channels));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < image.channels; ++c)
        pixels.push_back(std::byte{
            mean_of(image, Extent(x, width, image.width), Extent(y, height, image.height), c)});
  return {.height = height,
          .width = width,
          .channels = image.channels,
          .pixels = io::Bytes::take(std::move(pixels))};
}

/// Of colours, the luma of Rec. 601.
decode::Image grey_of(const decode::Image& image) {
  if (image.channels == 1) return image;
  const auto values = image.pixels.span();
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(values[i]); };
  std::vector<std::byte> pixels(values.size() / channels);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t from = i * channels;
    pixels[i] =
        static_cast<std::byte>((77 * at(from) + 150 * at(from + 1) + 29 * at(from + 2) + 128) >> 8);
  }
  return {.height = image.height,
          .width = image.width,
          .channels = 1,
          .pixels = io::Bytes::take(std::move(pixels))};
}

struct Moments {
  double count = 0;
  double sum = 0;
  double squares = 0;

  void add(double value) {
    ++count;
    sum += value;
    squares += value * value;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
  double variance() const {
    return count > 0 ? std::max(0.0, squares / count - mean() * mean()) : 0;
  }
};

Moments levels_of(const decode::Image& grey) {
  Moments moments;
  for (const std::byte level : grey.pixels.span()) moments.add(std::to_integer<int>(level));
  return moments;
}

double laplacian_variance(const decode::Image& grey) {
  Moments moments;
  for (int y = 1; y + 1 < grey.height; ++y) {
    const auto above = grey.row(y - 1);
    const auto row = grey.row(y);
    const auto below = grey.row(y + 1);
    for (std::size_t x = 1; x + 1 < row.size(); ++x)
      moments.add(4 * row[x] - row[x - 1] - row[x + 1] - above[x] - below[x]);
  }
  return moments.variance();
}

std::array<std::uint64_t, 2> digest_of(const io::Bytes& encoded) {
  Sha256 sha;
  sha.update(encoded.span());
  const std::string hex = sha.hex();
  std::array<std::uint64_t, 2> digest{};
  for (std::size_t i = 0; i < 2; ++i)
    std::from_chars(hex.data() + 16 * i, hex.data() + 16 * (i + 1), digest[i], 16);
  return digest;
}

void add_coarse(const decode::Image& grey, PictureFacts& facts) {
  constexpr int kSide = PictureFacts::kCells;
  const decode::Image small = reduced_to(grey, kSide, kSide);
  std::transform(small.pixels.span().begin(), small.pixels.span().end(), facts.coarse.begin(),
                 [](std::byte level) { return std::to_integer<std::uint8_t>(level); });
  for (int y = 0; y + 1 < kSide; ++y)
    for (int x = 0; x + 1 < kSide; ++x) {
      const auto column = static_cast<std::size_t>(x);
      const std::uint8_t level = small.row(y)[column];
      const auto bit = static_cast<unsigned>(y * (kSide - 1) + x);
      facts.gradients[0] |= std::uint64_t{level < small.row(y)[column + 1]} << bit;
      facts.gradients[1] |= std::uint64_t{level < small.row(y + 1)[column]} << bit;
    }
}

}  // namespace

PictureFacts facts_of(const io::Bytes& encoded, const decode::Image& image) {
  const decode::Image grey = grey_of(image);
  PictureFacts facts{.size = {.height = image.height, .width = image.width},
                     .digest = digest_of(encoded)};
  const Moments levels = levels_of(grey);
  facts.brightness = static_cast<float>(levels.mean());
  facts.contrast = static_cast<float>(std::sqrt(levels.variance()));
  const decode::Image small = shrunk(grey, kSharpnessSide);
  const double spread = levels_of(small).variance();
  facts.sharpness = spread > 0 ? static_cast<float>(laplacian_variance(small) / spread) : 0.0F;
  add_coarse(grey, facts);
  return facts;
}

bool look_alike(const PictureFacts& one, const PictureFacts& other) {
  int bits = 0;
  for (std::size_t i = 0; i < 2; ++i) bits += std::popcount(one.gradients[i] ^ other.gradients[i]);
  if (bits > kAlikeBits) return false;
  int difference = 0;
  for (std::size_t i = 0; i < one.coarse.size(); ++i)
    difference += std::abs(one.coarse[i] - other.coarse[i]);
  return difference <= kAlikeLevels * static_cast<int>(one.coarse.size());
}

decode::Image shrunk(const decode::Image& image, int most) {
  const int side = std::max(image.width, image.height);
  if (side <= most) return image;
  const auto scaled = [&](int length) {
    return std::max(1, static_cast<int>((std::int64_t{length} * most + side / 2) / side));
  };
  return reduced_to(image, scaled(image.width), scaled(image.height));
}

}  // namespace millrace::tools
