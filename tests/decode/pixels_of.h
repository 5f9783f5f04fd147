// A decoder's output as numbers to compare.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/image.h"
#include "decode/image_decoder.h"
#include "io/base/error.h"

namespace millrace::testing {

inline std::vector<std::uint8_t> pixels_of(const decode::Image& image) {
  const std::string_view text = image.pixels.text();
  return {text.begin(), text.end()};
}

/// The slot after decode(), as values of type T.
template <typename T = std::uint8_t>
std::vector<T> decoded(const decode::ImageDecoder& decoder, const io::Bytes& file,
                       const decode::SampleId& id = {}) {
  std::vector<T> slot(static_cast<std::size_t>(decoder.output().num_values()));
  decoder.decode(file, id, std::as_writable_bytes(std::span(slot)));
  return slot;
}

/// uint8, (H, W, C), without normalisation.
inline decode::ImageDecoder plain_decoder(std::vector<decode::Transform> transforms,
                                          int channels = 3) {
  return decode::ImageDecoder(
      {.transforms = std::move(transforms), .channels = channels, .dtype = decode::DType::kUInt8});
}

/// The rectangle of `image` from (y, x) on; pixels outside are 0.
inline std::vector<std::uint8_t> window_of(const decode::Image& image, int y, int x, int height,
                                           int width) {
  std::vector<std::uint8_t> out;
  for (int r = y; r < y + height; ++r) {
    for (int column = x; column < x + width; ++column) {
      for (int c = 0; c < image.channels; ++c) {
        const bool inside = r >= 0 && r < image.height && column >= 0 && column < image.width;
        const auto at = static_cast<std::size_t>(column) * static_cast<std::size_t>(image.channels);
        out.push_back(inside ? image.row(r)[at + static_cast<std::size_t>(c)] : 0);
      }
    }
  }
  return out;
}

/// The largest difference; 256 if the sizes differ.
inline int max_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.size() != b.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// The code of the Error that `call` throws; nullopt if it throws none.
template <typename Call>
std::optional<ErrorCode> fault_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

}  // namespace millrace::testing
