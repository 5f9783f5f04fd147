// Pictures with a mask or depth, colour jitter, orientation.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "decode/detail/colour.h"
#include "decode/encode.h"
#include "decode/paired_decoder.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::DType;
using decode::Image;
using decode::ImageDecoder;
using decode::Interpolation;
using decode::PairedDecoder;
using decode::PairedImage;
using testing::decoded;
using testing::fault_of;

// Classes in blocks of 8 × 8, and a picture whose red channel is the class.
Image blocks() {
  std::vector<std::byte> pixels;
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 80; ++x) pixels.push_back(static_cast<std::byte>(x / 8 * 8 + y / 8));
  }
  return {64, 80, 1, io::Bytes::take(std::move(pixels))};
}

TEST(PairedDecoder, PictureAndMaskSeeTheSameGeometry) {
  const Image mask = blocks();
  const io::Bytes file = decode::encode_png(mask);
  const PairedDecoder decoder(
      {decode::RandomResizedCrop{.size = 24, .area = {0.1, 0.5}}, decode::RandomHorizontalFlip{}},
      {{.dtype = DType::kUInt8, .interpolation = Interpolation::kNearest},
       {.channels = 1, .dtype = DType::kInt64, .interpolation = Interpolation::kNearest}});
  std::vector<std::uint8_t> picture(decoder.output(0).num_bytes());
  std::vector<std::int64_t> classes(static_cast<std::size_t>(decoder.output(1).num_values()));
  const std::vector<PairedImage> images = {{file, std::as_writable_bytes(std::span(picture))},
                                           {file, std::as_writable_bytes(std::span(classes))}};
  std::set<std::int64_t> corners;
  for (std::uint64_t index = 0; index < 200; ++index) {
    decoder.decode(images, {.index = index});
    for (std::size_t i = 0; i < classes.size(); ++i) ASSERT_EQ(classes[i], picture[3 * i]);
    corners.insert(classes.front());
  }
  EXPECT_GT(corners.size(), 20U);
}

TEST(PairedDecoder, RefusesImagesOfDifferentSizes) {
  const PairedDecoder decoder({decode::Resize{{8, 8}}}, {{}, {.channels = 1}});
  std::vector<std::byte> a(decoder.output(0).num_bytes());
  std::vector<std::byte> b(decoder.output(1).num_bytes());
  const std::vector<PairedImage> images = {
      {decode::encode_png(testing::photo(20, 30, 1)), a},
      {decode::encode_png(testing::photo(30, 20, 1)), b, {.member = "k.mask.png", .offset = 512}}};
  try {
    decoder.decode(images, {});
    FAIL() << "images of two sizes are no pair";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.where().member, "k.mask.png");
  }
  EXPECT_EQ(fault_of([] {
              PairedDecoder bad({}, {{.transforms = {decode::Resize{{8, 8}}}}});
            }),
            ErrorCode::kInvalidArgument);
}

TEST(Nearest, MakesNoNewValues) {
  const io::Bytes file = decode::encode_png(testing::grey(testing::photo(50, 40, 5)));
  const auto whole = testing::pixels_of(decode::decode_image(file));
  const std::set<std::uint8_t> values(whole.begin(), whole.end());
  for (const int size : {13, 40, 97}) {
    const ImageDecoder decoder({.transforms = {decode::Resize{{size, size}}},
                                .channels = 1,
                                .dtype = DType::kUInt8,
                                .interpolation = Interpolation::kNearest});
    const auto out = decoded(decoder, file);
    for (int y = 0; y < size; ++y) {
      for (int x = 0; x < size; ++x) {
        const int row = static_cast<int>((y + 0.5) * 50 / size);
        const int column = static_cast<int>((x + 0.5) * 40 / size);
        ASSERT_EQ(out[static_cast<std::size_t>(y * size + x)],
                  whole[static_cast<std::size_t>(row * 40 + column)]);
      }
    }
  }
}

TEST(ColorJitter, StaysInItsRangeAndDependsOnTheSample) {
  const Image flat{4, 4, 3, io::Bytes::take(std::vector<std::byte>(48, std::byte{100}))};
  const io::Bytes file = decode::encode_png(flat);
  const auto decoder =
      testing::plain_decoder({decode::Resize{{4, 4}}, decode::ColorJitter{.brightness = 0.5}});
  int least = 255;
  int most = 0;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const auto out = decoded(decoder, file, {.index = index});
    EXPECT_EQ(out, decoded(decoder, file, {.index = index}));
    least = std::min<int>(least, out[0]);
    most = std::max<int>(most, out[0]);
  }
  EXPECT_GE(least, 50);
  EXPECT_LT(least, 55);
  EXPECT_LE(most, 150);
  EXPECT_GT(most, 145);
}

TEST(ColorJitter, FactorOneChangesNothing) {
  auto pixels = testing::pixels_of(testing::photo(9, 9, 2));
  const auto before = pixels;
  decode::detail::change_brightness(pixels, 1.0);
  decode::detail::change_contrast(pixels, 3, 1.0);
  decode::detail::change_saturation(pixels, 3, 1.0);
  EXPECT_LE(testing::max_difference(pixels, before), 1);
  decode::detail::change_saturation(pixels, 3, 0.0);
  EXPECT_EQ(pixels[0], pixels[1]);
  EXPECT_EQ(pixels[1], pixels[2]);
}

// An Exif segment with only the orientation, after the start marker.
io::Bytes with_orientation(const io::Bytes& jpeg, int orientation, bool big_endian) {
  const auto number = [&](unsigned value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) {
      out += static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i));
    }
    return out;
  };
  const std::string tiff = std::string(big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) +
                           number(1, 2) + number(0x0112, 2) + number(3, 2) + number(1, 4) +
                           number(static_cast<unsigned>(orientation), 2) + number(0, 2) +
                           number(0, 4);
  const std::string body = std::string("Exif\0\0", 6) + tiff;
  const std::size_t length = body.size() + 2;
  const std::string text(jpeg.text());
  return io::Bytes::copy_of(text.substr(0, 2) + "\xff\xe1" + static_cast<char>(length >> 8) +
                            static_cast<char>(length) + body + text.substr(2));
}

TEST(Orientation, TurnsOnlyWhenAsked) {
  const io::Bytes jpeg = decode::encode_jpeg(testing::photo(24, 40, 3));
  const Image stored = decode::decode_image(jpeg);
  const auto pixel = [](const Image& image, int y, int x) {
    const auto row = image.row(y).subspan(static_cast<std::size_t>(3 * x), 3);
    return std::vector<int>(row.begin(), row.end());
  };
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const io::Bytes file = with_orientation(jpeg, orientation, orientation % 2 == 0);
    EXPECT_EQ(decode::decode_image(file).width, 40);
    const Image turned = decode::decode_image(file, {.apply_orientation = true});
    ASSERT_EQ(turned.width, orientation >= 5 ? 24 : 40);
    // Exif defines where the first stored row and column are displayed.
    const int h = turned.height - 1;
    const int w = turned.width - 1;
    const std::vector<std::pair<int, int>> first = {{0, 0}, {0, w}, {h, w}, {h, 0},
                                                    {0, 0}, {0, w}, {h, w}, {h, 0}};
    const auto [y, x] = first[static_cast<std::size_t>(orientation - 1)];
    EXPECT_EQ(pixel(turned, y, x), pixel(stored, 0, 0)) << orientation;
    EXPECT_EQ(pixel(turned, h - y, w - x), pixel(stored, 23, 39)) << orientation;
  }
}

}  // namespace
}  // namespace millrace
