// Pictures stored in another way: smaller JPEGs, and raw pixels.
#include "decode/recode.h"

#include <gtest/gtest.h>

#include <string>

#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/png_builder.h"

namespace millrace {
namespace {

using namespace std::string_literals;
using decode::decode_image;
using decode::ImageSize;
using testing::decoded;
using testing::fault_of;
using testing::max_difference;
using testing::pixels_of;

ImageSize size_of(const io::Bytes& file, bool upright = false) {
  return decode::image_size(file, {.apply_orientation = upright});
}

std::string segment(char code, const std::string& body) {
  const auto length = static_cast<unsigned>(body.size() + 2);
  return "\xff"s + code + static_cast<char>(length >> 8) + static_cast<char>(length & 255) + body;
}

/// Behind the start marker.
io::Bytes with_segments(const io::Bytes& jpeg, const std::string& segments) {
  const std::string text(jpeg.text());
  return io::Bytes::copy_of(text.substr(0, 2) + segments + text.substr(2));
}

/// "Lies on its left side": big-endian TIFF, one entry.
const std::string kTurned =
    segment('\xe1', "Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s);

TEST(ShrinkJpeg, MakesTheShorterSideWhatIsAskedFor) {
  const io::Bytes wide = decode::encode_jpeg(testing::photo(60, 101, 1));
  const io::Bytes high = decode::encode_jpeg(testing::photo(101, 60, 1));
  EXPECT_EQ(size_of(*decode::shrink_jpeg(wide, {.shorter = 32})), (ImageSize{32, 53}));
  EXPECT_EQ(size_of(*decode::shrink_jpeg(high, {.shorter = 32})), (ImageSize{53, 32}));
  EXPECT_FALSE(decode::shrink_jpeg(wide, {.shorter = 60}));
  EXPECT_EQ(size_of(*decode::shrink_jpeg(wide, {.shorter = 120, .only_larger = false})),
            (ImageSize{120, 202}));
}

TEST(ShrinkJpeg, IsTheResizedPictureInTheGivenQuality) {
  const io::Bytes file = testing::build_jpeg(testing::photo(90, 120, 2), {.progressive = true});
  const auto whole = decode::resize_image(decode_image(file), {.height = 45, .width = 60});
  const io::Bytes fine = *decode::shrink_jpeg(file, {.shorter = 45, .quality = 100});
  const io::Bytes coarse = *decode::shrink_jpeg(file, {.shorter = 45, .quality = 30});
  EXPECT_EQ(pixels_of(decode_image(fine)),
            pixels_of(decode_image(decode::encode_jpeg(whole, {.quality = 100}))));
  EXPECT_LT(2 * coarse.size(), fine.size());
  const io::Bytes grey = testing::build_jpeg(testing::grey(testing::photo(90, 120, 2)), {});
  EXPECT_EQ(decode_image(*decode::shrink_jpeg(grey, {.shorter = 45})).channels, 1);
}

TEST(ShrinkJpeg, KeepsWhatIsNotAboutTheCoding) {
  const std::string profile = segment('\xe2', "ICC_PROFILE\0\x01\x01 colours"s);
  const std::string others =
      segment('\xe2', "MPF\0 places of other files"s) + segment('\xfe', "a comment");
  const io::Bytes file =
      with_segments(decode::encode_jpeg(testing::photo(60, 100, 3)), kTurned + others + profile);
  ASSERT_EQ(size_of(file, true), (ImageSize{100, 60}));
  const io::Bytes small = *decode::shrink_jpeg(file, {.shorter = 30});
  EXPECT_EQ(size_of(small), (ImageSize{30, 50}));
  EXPECT_EQ(size_of(small, true), (ImageSize{50, 30}));
  EXPECT_NE(small.text().find(profile), std::string::npos);
  EXPECT_EQ(small.text().find("MPF"), std::string::npos);
  EXPECT_EQ(small.text().substr(0, 4), "\xff\xd8\xff\xe0") << "JFIF comes first";
}

TEST(ShrinkJpeg, RefusesWhatItCannotRead) {
  const io::Bytes file = decode::encode_jpeg(testing::photo(60, 100, 3));
  EXPECT_EQ(fault_of([] { decode::shrink_jpeg(decode::encode_png(testing::photo(9, 9, 1))); }),
            ErrorCode::kUnsupported);
  EXPECT_EQ(
      fault_of([&] { decode::shrink_jpeg(testing::cut(file, file.size() / 2), {.shorter = 8}); }),
      ErrorCode::kTruncated);
  for (std::size_t at = 2; at < file.size(); at += 7)
    fault_of([&] { decode::shrink_jpeg(testing::flip(file, at, 0xFF), {.shorter = 8}); });
  const io::Bytes narrow = decode::encode_jpeg(testing::photo(1, 9000, 1));
  EXPECT_EQ(fault_of([&] { decode::shrink_jpeg(narrow, {.shorter = 64, .only_larger = false}); }),
            ErrorCode::kExhausted);
}

TEST(StoreRaw, KeepsEveryPixelAndIsReadWithoutDecoding) {
  const decode::Image photo = testing::photo(31, 45, 1);
  for (const io::Bytes& file :
       {decode::encode_png(photo), decode::encode_png(testing::grey(photo)),
        testing::build_jpeg(photo, {}), testing::build_jpeg(testing::grey(photo), {})}) {
    const decode::Image before = decode_image(file);
    const decode::EncodedImage raw = decode::store_raw(file);
    EXPECT_EQ(raw.suffix, before.channels == 1 ? "pgm" : "ppm");
    EXPECT_EQ(raw.data.text().substr(raw.data.size() - before.pixels.size()), before.pixels.text());
    const auto decoder = testing::plain_decoder({decode::CenterCrop{{20, 20}}});
    EXPECT_EQ(decoded(decoder, raw.data), decoded(decoder, file));
  }
}

TEST(StoreRaw, RefusesWhatWouldLoseSomething) {
  const io::Bytes jpeg = decode::encode_jpeg(testing::photo(20, 30, 1));
  const auto png = [](testing::PngShape shape) { return testing::build_png(shape, 1).file; };
  for (const io::Bytes& file :
       {png({.colour_type = 3}), png({.colour_type = 0, .bit_depth = 16}),
        png({.colour_type = 2, .bit_depth = 16}), png({.colour_type = 0, .bit_depth = 1}),
        png({.colour_type = 4}), png({.colour_type = 6}),
        png({.colour_type = 2, .transparent = true}), with_segments(jpeg, kTurned),
        decode::encode_pnm(testing::photo(9, 9, 1))})
    EXPECT_EQ(fault_of([&] { decode::store_raw(file); }), ErrorCode::kUnsupported);
  EXPECT_EQ(fault_of([&] { decode::store_raw(testing::cut(jpeg, jpeg.size() / 2)); }),
            ErrorCode::kTruncated);
}

}  // namespace
}  // namespace millrace
