#include "tools/view/picture.h"

#include <algorithm>
#include <string>
#include <utility>

#include "decode/encode.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "tools/create/image_file.h"

namespace millrace::tools {
namespace {

Colour colour_at(const decode::Image& image, int x, int y) {
  const auto row = image.row(y);
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t at = static_cast<std::size_t>(x) * channels;
  if (channels == 1) return {row[at], row[at], row[at]};
  return {row[at], row[at + 1], row[at + 2]};
}

}  // namespace

Picture::Picture(int width, int height, Colour background) : width_(width), height_(height) {
  pixels_.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (int i = 0; i < width * height; ++i)
    pixels_.insert(pixels_.end(), background.begin(), background.end());
}

void Picture::square(int x, int y, int size, Colour colour) {
  for (int row = std::max(y, 0); row < std::min(y + size, height_); ++row) {
    for (int column = std::max(x, 0); column < std::min(x + size, width_); ++column) {
      const auto at = 3 * (static_cast<std::ptrdiff_t>(row) * width_ + column);
      std::copy(colour.begin(), colour.end(), pixels_.begin() + at);
    }
  }
}

void Picture::put(const decode::Image& image, const Place& place) {
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      square(place.x + x * place.scale, place.y + y * place.scale, place.scale,
             colour_at(image, x, y));
}

void Picture::write(std::string_view text, const Place& place, Colour colour) {
  int left = place.x;
  for (const char character : text) {
    const Glyph& glyph = glyph_of(character);
    for (int y = 0; y < kGlyphHeight; ++y)
      for (int x = 0; x < kGlyphWidth; ++x)
        if ((glyph[static_cast<std::size_t>(y)] >> (kGlyphWidth - 1 - x) & 1) != 0)
          square(left + x * place.scale, place.y + y * place.scale, place.scale, colour);
    left += kAdvance * place.scale;
  }
}

decode::Image Picture::image() const {
  const auto bytes = std::as_bytes(std::span(pixels_));
  return {.height = height_,
          .width = width_,
          .channels = 3,
          .pixels = io::Bytes::take(std::vector<std::byte>(bytes.begin(), bytes.end()))};
}

void check_picture_name(const std::string& path) {
  const std::string suffix = suffix_of(io::printable_url(path));
  for (const char* known : {"", "png", "jpg", "jpeg", "ppm"})
    if (suffix == known) return;
  throw Error(ErrorCode::kInvalidArgument,
              io::printable_url(path) + ": pictures are written as .png, .jpg or .ppm");
}

io::Bytes encode_picture(const decode::Image& image, const std::string& path) {
  const std::string suffix = suffix_of(io::printable_url(path));
  if (suffix == "ppm") return decode::encode_pnm(image);
  if (suffix == "jpg" || suffix == "jpeg")
    return decode::encode_jpeg(image, {.quality = 95, .subsample = false});
  return decode::encode_png(image);
}

std::string fitted(std::string_view text, int width, int scale) {
  std::string line;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x80 && byte < 0xC0) continue;  // a continuation byte of a UTF-8 sequence
    line.push_back(byte >= 0xC0 ? '?' : character);
  }
  const auto room = static_cast<std::size_t>(std::max(1, width / (kAdvance * scale)));
  if (line.size() <= room) return line;
  const std::size_t kept = room > 2 ? room - 2 : room;
  return line.substr(0, kept) + std::string(room - kept, '.');
}

}  // namespace millrace::tools
