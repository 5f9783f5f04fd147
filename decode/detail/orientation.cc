#include "decode/detail/orientation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace millrace::decode::detail {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr unsigned kOrientationTag = 0x0112;

// TIFF's integers, in either byte order; reads beyond the end return zeros.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> data) : data_(data), big_(byte(0) == 'M') {}

  unsigned u16(std::size_t at) const {
    return big_ ? byte(at) << 8 | byte(at + 1) : byte(at + 1) << 8 | byte(at);
  }
  unsigned u32(std::size_t at) const {
    return big_ ? u16(at) << 16 | u16(at + 2) : u16(at + 2) << 16 | u16(at);
  }

 private:
  unsigned byte(std::size_t at) const { return at < data_.size() ? data_[at] : 0; }

  std::span<const std::uint8_t> data_;
  bool big_;
};

// Where the upright picture's pixel (0, 0) is in the stored one, and the steps to its neighbours.
struct Path {
  std::ptrdiff_t origin;
  std::ptrdiff_t along_x;
  std::ptrdiff_t along_y;
};

Path path_of(const PixelView& view, int orientation) {
  const std::ptrdiff_t pixel = view.channels;
  const auto row = static_cast<std::ptrdiff_t>(view.stride);
  const std::ptrdiff_t right = pixel * (view.box.width - 1);
  const std::ptrdiff_t bottom = row * (view.box.height - 1);
  const std::array<Path, 8> paths = {{{0, pixel, row},
                                      {right, -pixel, row},
                                      {right + bottom, -pixel, -row},
                                      {bottom, pixel, -row},
                                      {0, row, pixel},
                                      {bottom, -row, pixel},
                                      {right + bottom, -row, -pixel},
                                      {right, row, -pixel}}};
  return paths[static_cast<std::size_t>(orientation - 1)];
}

}  // namespace

std::optional<int> exif_orientation(std::span<const std::uint8_t> app1) {
  const std::string_view text(reinterpret_cast<const char*>(app1.data()), app1.size());
  if (!text.starts_with(kExif)) return {};
  const Tiff tiff(app1.subspan(kExif.size()));
  const std::size_t directory = tiff.u32(4);
  const unsigned entries = std::min(tiff.u16(directory), 1000U);
  for (unsigned i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * std::size_t{i};
    if (tiff.u16(entry) != kOrientationTag) continue;
    const unsigned value = tiff.u16(entry + 8);
    if (value >= 1 && value <= 8) return static_cast<int>(value);
  }
  return {};
}

PixelView orient(const PixelView& view, int orientation, std::vector<std::uint8_t>& buffer) {
  const Path path = path_of(view, orientation);
  const bool swaps = swaps_axes(orientation);
  const int width = swaps ? view.box.height : view.box.width;
  const int height = swaps ? view.box.width : view.box.height;
  const auto channels = static_cast<std::size_t>(view.channels);
  const std::size_t stride = static_cast<std::size_t>(width) * channels;
  std::uint8_t* out = reserve_pixels(buffer, stride * static_cast<std::size_t>(height));
  const PixelView upright{
      .data = out, .stride = stride, .box = {0, 0, width, height}, .channels = view.channels};
  for (int y = 0; y < height; ++y) {
    const std::ptrdiff_t line = path.origin + y * path.along_y;
    for (int x = 0; x < width; ++x, out += channels) {
      std::memcpy(out, view.data + line + x * path.along_x, channels);
    }
  }
  return upright;
}

}  // namespace millrace::decode::detail
