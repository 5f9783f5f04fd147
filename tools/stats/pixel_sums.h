// PixelSums: mean and standard deviation of every channel over all pixels of many images.
//
// The sums are exact integers, so they do not depend on the order of images or on threads. If there
// are also colour images, grey ones count as three equal channels, as they do for a model; alpha is
// ignored.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode/image.h"

namespace millrace::tools {

struct ChannelMoments {
  /// Of values in 0 to 1, per channel (3, or 1 if all images are grey), as Normalize takes them.
  std::vector<double> mean = {};
  /// sqrt(E[x^2] - E[x]^2), over the whole population.
  std::vector<double> std = {};
};

class PixelSums {
 public:
  void add(const decode::Image& image);
  void add(const PixelSums& other);
  /// For another process of the run.
  std::vector<std::uint8_t> packed() const;
  static PixelSums unpacked(const std::vector<std::uint8_t>& bytes);

  std::uint64_t pixels() const { return grey_.pixels + colour_[0].pixels; }
  ChannelMoments moments() const;

 private:
  struct Sums {
    std::uint64_t pixels = 0;
    std::uint64_t values = 0;
    std::uint64_t squares = 0;

    void add(const Sums& other);
    double mean() const;
    double std() const;
  };

  template <int Channels>
  static std::array<Sums, Channels> channel_sums(const decode::Image& image);

  Sums grey_;
  std::array<Sums, 3> colour_ = {};
};

}  // namespace millrace::tools
