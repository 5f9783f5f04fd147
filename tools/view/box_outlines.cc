#include "tools/view/box_outlines.h"

#include <algorithm>
#include <cmath>

#include "decode/codec.h"
#include "tools/view/picture.h"
#include "tools/view/visible.h"

namespace millrace::tools {
namespace {

/// Pixels that a frame is wide, so that it is seen in large pictures.
int line_width(const decode::Image& image) {
  return std::max(1, std::max(image.width, image.height) / 256);
}

decode::Box pixels_of(const decode::Bounds& bounds) {
  const int left = static_cast<int>(std::floor(bounds.left));
  const int top = static_cast<int>(std::floor(bounds.top));
  return {left, top, static_cast<int>(std::ceil(bounds.right)) - left,
          static_cast<int>(std::ceil(bounds.bottom)) - top};
}

/// Squares side by side, along the box's four sides.
void frame(Picture& picture, const decode::Box& box, Colour colour, int wide) {
  const int right = std::max(box.x, box.x + box.width - wide);
  const int bottom = std::max(box.y, box.y + box.height - wide);
  for (int x = box.x; x <= right; ++x)
    for (const int y : {box.y, bottom}) picture.square(x, y, wide, colour);
  for (int y = box.y; y <= bottom; ++y)
    for (const int x : {box.x, right}) picture.square(x, y, wide, colour);
}

}  // namespace

decode::Image outlined(const decode::Image& image, std::span<const decode::ObjectBox> boxes) {
  Picture picture(image.width, image.height, {0, 0, 0});
  picture.put(image, {});
  const decode::Bounds all = {0, 0, static_cast<double>(image.width),
                              static_cast<double>(image.height)};
  for (const decode::ObjectBox& object : boxes) {
    const decode::Bounds seen = {
        std::max(object.bounds.left, all.left), std::max(object.bounds.top, all.top),
        std::min(object.bounds.right, all.right), std::min(object.bounds.bottom, all.bottom)};
    if (seen.left < seen.right && seen.top < seen.bottom)
      frame(picture, pixels_of(seen),
            object.label < 0 ? kIgnoredColour : class_colour(object.label + 1), line_width(image));
  }
  return picture.image();
}

}  // namespace millrace::tools
