#include "tools/stats/pixel_sums.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "io/base/check.h"

namespace millrace::tools {
namespace {

// Sums and sums of squares of bytes in (pixel, channel) order.
template <int Channels>
struct Lanes {
  static constexpr int kCount = 16 * Channels;
  using Words = Eigen::Array<std::int32_t, kCount, 1>;
  using Bytes = Eigen::Array<std::uint8_t, kCount, 1>;

  explicit Lanes(std::span<const std::uint8_t> row) {
    constexpr auto kStep = static_cast<std::size_t>(kCount);
    const std::size_t end = row.size() / kStep * kStep;
    for (std::size_t at = 0; at < end; at += kStep) {
      add(Eigen::Map<const Bytes>(row.data() + at));
    }
    Bytes rest = Bytes::Zero();
    std::copy(row.begin() + static_cast<std::ptrdiff_t>(end), row.end(), rest.data());
    add(rest);
  }

  template <typename Map>
  void add(const Map& bytes) {
    const Words wide = bytes.template cast<std::int32_t>();
    values += wide;
    squares += wide * wide;
  }

  static std::uint64_t total(const Words& lanes, int channel) {
    const Eigen::Map<const Eigen::Array<std::int32_t, 16, Channels,
                                        Channels == 1 ? Eigen::ColMajor : Eigen::RowMajor>>
        by_channel(lanes.data());
    return static_cast<std::uint64_t>(by_channel.col(channel).template cast<std::int64_t>().sum());
  }

  Words values = Words::Zero();
  Words squares = Words::Zero();
};

// The number of bytes for which no lane's sum of squares can reach 2^31.
template <int Channels>
constexpr std::size_t kStretch = std::size_t{16} * Channels * 16'384;

}  // namespace

std::vector<std::uint8_t> PixelSums::packed() const {
  static_assert(std::is_trivially_copyable_v<PixelSums>);
  std::vector<std::uint8_t> bytes(sizeof(PixelSums));
  std::memcpy(bytes.data(), this, sizeof(PixelSums));
  return bytes;
}

PixelSums PixelSums::unpacked(const std::vector<std::uint8_t>& bytes) {
  PixelSums sums;
  MILLRACE_CHECK(bytes.size() == sizeof(PixelSums), "sums of another program");
  std::memcpy(&sums, bytes.data(), sizeof(PixelSums));
  return sums;
}

void PixelSums::Sums::add(const Sums& other) {
  pixels += other.pixels;
  values += other.values;
  squares += other.squares;
}

double PixelSums::Sums::mean() const {
  return static_cast<double>(values) / static_cast<double>(pixels) / 255.0;
}

// In long double the difference keeps 64 bits, more than cancel out for 2^48 pixels.
double PixelSums::Sums::std() const {
  const auto n = static_cast<long double>(pixels);
  const long double mean = static_cast<long double>(values) / n;
  const long double variance = static_cast<long double>(squares) / n - mean * mean;
  return static_cast<double>(std::sqrt(std::max(variance, 0.0L)) / 255.0L);
}

// A row is summed in one lane per channel of 16 pixels; the lanes are combined at its end.
template <int Channels>
std::array<PixelSums::Sums, Channels> PixelSums::channel_sums(const decode::Image& image) {
  std::array<Sums, Channels> sums = {};
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.row(y);
    for (std::size_t at = 0; at < row.size(); at += kStretch<Channels>) {
      const Lanes<Channels> lanes(row.subspan(at, std::min(kStretch<Channels>, row.size() - at)));
      for (int c = 0; c < Channels; ++c) {
        sums[static_cast<std::size_t>(c)].values += lanes.total(lanes.values, c);
        sums[static_cast<std::size_t>(c)].squares += lanes.total(lanes.squares, c);
      }
    }
  }
  for (Sums& sum : sums) {
    sum.pixels = static_cast<std::uint64_t>(image.height) * static_cast<std::uint64_t>(image.width);
  }
  return sums;
}

void PixelSums::add(const decode::Image& image) {
  if (image.channels == 1) {
    grey_.add(channel_sums<1>(image)[0]);
    return;
  }
  const auto add_colour = [&](std::span<const Sums> sums) {
    for (std::size_t c = 0; c < colour_.size(); ++c) colour_[c].add(sums[c]);
  };
  if (image.channels == 4) {  // the fourth is alpha, not a colour
    add_colour(channel_sums<4>(image));
  } else {
    add_colour(channel_sums<3>(image));
  }
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
