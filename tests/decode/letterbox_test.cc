// Letterbox: its geometry, and what is padded in pictures, masks and depths.
#include "decode/transforms/letterbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "decode/geometry.h"
#include "decode/paired_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/random_vertical_flip.h"
#include "decode/transforms/resize.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace letterbox_test {

using decode::Box;
using decode::DType;
using decode::Extent;
using decode::Image;
using decode::ImageDecoder;
using decode::Interpolation;
using decode::Transform;
using testing::decoded;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Image white(int height, int width) {
  const auto count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  return {height, width, 1, io::Bytes::take(std::vector<std::byte>(count, std::byte{255}))};
}

/// The box of the pixels that `shows` is true for; they must fill it.
template <typename T, typename Shows>
Box box_of(const std::vector<T>& pixels, const Extent& size, const Shows& shows) {
  int left = size.width, right = 0, top = size.height, bottom = 0, count = 0;
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x) {
      if (!shows(pixels[static_cast<std::size_t>(y * size.width + x)])) continue;
      left = std::min(left, x), right = std::max(right, x + 1);
      top = std::min(top, y), bottom = std::max(bottom, y + 1);
      ++count;
    }
  if (count == 0) return {};
  EXPECT_EQ(count, (right - left) * (bottom - top)) << "a rectangle";
  return {left, top, right - left, bottom - top};
}

/// The side of the picture beside the one that becomes `size`: the whole number nearest to
/// size * side / other, of two equally near ones the even one, and at least 1.
int nearest_side(int size, int side, int other) {
  const int twice = 2 * size * side;
  const int below = twice / (2 * other);
  const int rest = twice - below * 2 * other;
  const bool up = rest > other || (rest == other && below % 2 == 1);
  return std::max(1, below + (up ? 1 : 0));
}

TEST(Letterbox, FitsThePictureInProportionIntoTheMiddle) {
  for (const Extent& size : {Extent(24), Extent(17, 40), Extent(33, 8)}) {
    for (const auto& [height, width] : std::vector<std::pair<int, int>>{{24, 24},
                                                                        {9, 50},
                                                                        {50, 9},
                                                                        {48, 47},
                                                                        {7, 5},
                                                                        {1, 90},
                                                                        {17, 40},
                                                                        {34, 80},
                                                                        {8, 33},
                                                                        {100, 3},
                                                                        {30, 77}}) {
      const bool wide = width * size.height >= height * size.width;
      const int shown_width = wide ? size.width : nearest_side(size.height, width, height);
      const int shown_height = wide ? nearest_side(size.width, height, width) : size.height;
      const Box expected = {(size.width - shown_width) / 2, (size.height - shown_height) / 2,
                            shown_width, shown_height};
      const ImageDecoder decoder(
          {.transforms = {decode::Letterbox{.size = size}}, .channels = 1, .dtype = DType::kUInt8});
      const auto pixels = decoded(decoder, decode::encode_png(white(height, width)));
      EXPECT_EQ(box_of(pixels, size, [](std::uint8_t level) { return level == 255; }), expected)
          << height << " x " << width << " in " << size.height << " x " << size.width;
      EXPECT_EQ(std::ranges::count(pixels, 0),
                static_cast<std::ptrdiff_t>(pixels.size()) - shown_width * shown_height);
    }
  }
}

TEST(Letterbox, ShowsWhatAResizeToItsPartShows) {
  const Image image = testing::photo(70, 123, 4);
  const io::Bytes file = decode::encode_png(image);
  const auto seen = decoded(testing::plain_decoder({decode::Letterbox{.size = {64, 96}}}), file);
  const auto part = decoded(testing::plain_decoder({decode::Resize{{55, 96}}}), file);
  const Image whole = {64, 96, 3, io::Bytes::copy_of(std::as_bytes(std::span(seen)))};
  EXPECT_EQ(testing::window_of(whole, 4, 0, 55, 96), part);
  const auto same = decoded(testing::plain_decoder({decode::Letterbox{.size = {70, 123}}}), file);
  EXPECT_EQ(same, testing::pixels_of(image)) << "as stored, if that is its size";
}

/// What pictures of one size become: an image, a mask of classes, one that is set or not, a depth.
struct Seen {
  std::vector<std::uint8_t> image;
  std::vector<std::int64_t> classes;
  std::vector<float> mask;
  std::vector<float> depth;
  Extent size;
};

Seen seen_of(const std::vector<Transform>& geometry, const Image& image,
             const decode::SampleId& id = {}) {
  const decode::PairedDecoder decoder(geometry,
                                      {{.channels = 1, .dtype = DType::kUInt8},
                                       {.channels = 1,
                                        .dtype = DType::kInt64,
                                        .interpolation = Interpolation::kNearest,
                                        .classes = decode::ClassMask{.ignore = -1}},
                                       {.transforms = {decode::Normalize{.mean = {0.25F}}},
                                        .channels = 1,
                                        .interpolation = Interpolation::kNearest,
                                        .padding = kNaN},
                                       {.channels = 1, .padding = kNaN}});
  const auto& shape = decoder.output(0).shape;
  Seen seen;
  seen.size = {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
  const auto count = static_cast<std::size_t>(seen.size.height * seen.size.width);
  seen.image.resize(count);
  seen.classes.resize(count);
  seen.mask.resize(count);
  seen.depth.resize(count);
  const io::Bytes file = decode::encode_png(image);
  const std::vector<decode::PairedImage> images = {
      {file, std::as_writable_bytes(std::span(seen.image))},
      {file, std::as_writable_bytes(std::span(seen.classes))},
      {file, std::as_writable_bytes(std::span(seen.mask))},
      {file, std::as_writable_bytes(std::span(seen.depth))}};
  decoder.decode(images, id);
  return seen;
}

TEST(Padding, IsTheSameInPictureMaskAndDepthAndNothingElse) {
  const std::vector<std::vector<Transform>> geometries = {
      {decode::Letterbox{.size = 32}},
      {decode::Letterbox{.size = 32}, decode::CenterCrop{.size = {40, 48}}},
      {decode::Letterbox{.size = {40, 32}}, decode::RandomCrop{.size = {40, 32}, .padding = 9},
       decode::RandomHorizontalFlip{}, decode::RandomVerticalFlip{}},
      {decode::RandomHorizontalFlip{}, decode::Letterbox{.size = 31},
       decode::RandomCrop{.size = 20}, decode::CenterCrop{.size = 33},
       decode::RandomVerticalFlip{}},
  };
  int padded = 0;
  for (const auto& geometry : geometries)
    for (const auto& [height, width] :
         std::vector<std::pair<int, int>>{{20, 45}, {61, 30}, {32, 32}})
      for (std::uint64_t index = 0; index < 20; ++index) {
        const Seen seen = seen_of(geometry, white(height, width), {.index = index});
        for (std::size_t i = 0; i < seen.image.size(); ++i) {
          const bool shows = seen.image[i] == 255;
          ASSERT_TRUE(shows || seen.image[i] == 0) << "resized without its padding";
          ASSERT_EQ(seen.classes[i], shows ? 255 : -1);
          ASSERT_EQ(std::isnan(seen.mask[i]), !shows);
          ASSERT_EQ(std::isnan(seen.depth[i]), !shows);
          padded += shows ? 0 : 1;
          if (!shows) continue;
          ASSERT_NEAR(seen.mask[i], 0.75F, 1e-6F);
          ASSERT_NEAR(seen.depth[i], 1.0F, 1e-6F);
        }
      }
  EXPECT_GT(padded, 10'000);
}

TEST(Padding, ThatIsResizedWithThePictureLeavesNoTrace) {
  for (const std::vector<Transform>& then :
       std::vector<std::vector<Transform>>{{decode::Resize{{20, 50}}},
                                           {decode::Resize{{67, 71}}},
                                           {decode::RandomResizedCrop{.size = 24}}}) {
    std::vector<Transform> geometry = {decode::Letterbox{.size = 40}};
    geometry.insert(geometry.end(), then.begin(), then.end());
    for (std::uint64_t index = 0; index < 20; ++index) {
      const Seen seen = seen_of(geometry, white(30, 70), {.index = index});
      const auto shows = [](float value) { return !std::isnan(value); };
      const Box box = box_of(seen.depth, seen.size, shows);
      EXPECT_EQ(box, box_of(seen.mask, seen.size, shows));
      for (std::size_t i = 0; i < seen.depth.size(); ++i)
        ASSERT_TRUE(!shows(seen.depth[i]) || seen.depth[i] > 0.99999F) << "no blend with zeros";
      const Box image = box_of(seen.classes, seen.size, [](auto label) { return label == 255; });
      EXPECT_GE(box.width * box.height + 8 * (image.width + image.height + 4),
                image.width * image.height)
          << "and little more than the blend is left out";
    }
  }
}

TEST(Padding, HasTheValueThatIsAskedForInEveryLayout) {
  const io::Bytes file = decode::encode_png(testing::photo(10, 20, 1));
  for (const decode::Layout layout : {decode::Layout::kHWC, decode::Layout::kCHW}) {
    const ImageDecoder plain({.transforms = {decode::Letterbox{.size = 16}}, .layout = layout});
    const ImageDecoder marked(
        {.transforms = {decode::Letterbox{.size = 16}}, .layout = layout, .padding = -3.0F});
    const auto levels = decoded<float>(plain, file);
    const auto values = decoded<float>(marked, file);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = layout == decode::Layout::kHWC ? i / 48 : i / 16 % 16;
      ASSERT_EQ(values[i], row < 4 || row >= 12 ? -3.0F : levels[i]) << i;
    }
  }
  EXPECT_EQ(testing::fault_of([] {
              ImageDecoder bad({.transforms = {decode::Letterbox{.size = 16}},
                                .dtype = DType::kUInt8,
                                .padding = 0.0F});
            }),
            ErrorCode::kInvalidArgument);
}

}  // namespace letterbox_test
}  // namespace millrace
