// Picture: an RGB canvas for images and text.
//
// Anything outside of it is clipped. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decode/image.h"
#include "tools/view/glyphs.h"

namespace millrace::tools {

using Colour = std::array<std::uint8_t, 3>;

struct Place {
  int x = 0;
  int y = 0;
  /// Each pixel becomes scale x scale.
  int scale = 1;
};

class Picture {
 public:
  Picture(int width, int height, Colour background);

  /// A square of one colour with its upper left corner at (x, y).
  void square(int x, int y, int size, Colour colour);
  void put(const decode::Image& image, const Place& place);
  void write(std::string_view text, const Place& place, Colour colour);

  decode::Image image() const;

 private:
  int width_;
  int height_;
  std::vector<std::uint8_t> pixels_;
};

/// `text` fitted to one line of `width` pixels: each character beyond ASCII becomes a question
/// mark, and a text that is too long is cut and ends in two dots.
std::string fitted(std::string_view text, int width, int scale);

/// Refuses a file name that ends like another kind of file than encode_picture() writes. Throws:
/// InvalidArgument.
void check_picture_name(const std::string& path);
/// By the name's suffix: .jpg and .jpeg as JPEG, .ppm as PPM, .png and a name without a suffix as
/// PNG.
io::Bytes encode_picture(const decode::Image& image, const std::string& path);

/// Distance from one character to the next, in pixels.
inline constexpr int kAdvance = kGlyphWidth + 1;

}  // namespace millrace::tools
