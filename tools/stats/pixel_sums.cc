#include "tools/stats/pixel_sums.h"

#include <algorithm>
#include <cmath>

namespace millrace::tools {

void PixelSums::Sums::add(const Sums& other) {
  pixels += other.pixels;
  values += other.values;
  squares += other.squares;
}

double PixelSums::Sums::mean() const {
  return static_cast<double>(values) / static_cast<double>(pixels) / 255.0;
}

// In long double the difference keeps 64 bits, more than the sums of 2^48 pixels have in common.
double PixelSums::Sums::std() const {
  const auto n = static_cast<long double>(pixels);
  const long double mean = static_cast<long double>(values) / n;
  const long double variance = static_cast<long double>(squares) / n - mean * mean;
  return static_cast<double>(std::sqrt(std::max(variance, 0.0L)) / 255.0L);
}

PixelSums::Sums PixelSums::channel_sums(const decode::Image& image, int channel) {
  Sums sums;
  const auto step = static_cast<std::size_t>(image.channels);
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.row(y);
    for (std::size_t at = static_cast<std::size_t>(channel); at < row.size(); at += step) {
      const std::uint64_t value = row[at];
      sums.values += value;
      sums.squares += value * value;
    }
  }
  sums.pixels = static_cast<std::uint64_t>(image.height) * static_cast<std::uint64_t>(image.width);
  return sums;
}

void PixelSums::add(const decode::Image& image) {
  if (image.channels == 1) {
    grey_.add(channel_sums(image, 0));
    return;
  }
  for (int c = 0; c < 3; ++c) colour_[static_cast<std::size_t>(c)].add(channel_sums(image, c));
}

void PixelSums::add(const PixelSums& other) {
  grey_.add(other.grey_);
  for (std::size_t c = 0; c < colour_.size(); ++c) colour_[c].add(other.colour_[c]);
}

ChannelMoments PixelSums::moments() const {
  ChannelMoments moments;
  if (pixels() == 0) return moments;
  const std::size_t channels = colour_[0].pixels == 0 ? 1 : colour_.size();
  for (std::size_t c = 0; c < channels; ++c) {
    Sums sums = colour_[c];
    sums.add(grey_);
    moments.mean.push_back(sums.mean());
    moments.std.push_back(sums.std());
  }
  return moments;
}

}  // namespace millrace::tools
