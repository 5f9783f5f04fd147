// WebP and TIFF, as libwebp and libtiff write them. oracle_test.cc compares with PIL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/encode.h>

#include "decode/codec.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/tiff_builder.h"

namespace millrace {
namespace {

using decode::decode_image;
using decode::Image;
using testing::build_tiff;
using testing::fault_of;
using testing::max_difference;
using testing::pixels_of;

std::string message_of(const io::Bytes& file) {
  try {
    decode_image(file);
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

io::Bytes lossless_webp(const Image& image) {
  std::uint8_t* out = nullptr;
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(image.pixels.data());
  const std::size_t size =
      WebPEncodeLosslessRGB(pixels, image.width, image.height, image.width * 3, &out);
  io::Bytes file = io::Bytes::copy_of(std::string_view(reinterpret_cast<const char*>(out), size));
  WebPFree(out);
  return file;
}

TEST(WebP, LosslessPicturesComeBackToTheBit) {
  const Image image = testing::photo(41, 67, 1);
  const Image back = decode_image(lossless_webp(image));
  EXPECT_EQ(back.channels, 3);
  EXPECT_EQ(pixels_of(back), pixels_of(image));
}

TEST(WebP, IsWrittenWithAQualityAndAlpha) {
  const Image image = testing::photo(64, 80, 2);
  const auto& codecs = *decode::standard_codecs();
  const auto fine = codecs.encode(image, "webp", {.quality = 95});
  const auto coarse = codecs.encode(image, "webp", {.quality = 20});
  EXPECT_EQ(fine.suffix, "webp");
  EXPECT_LT(coarse.data.size(), fine.data.size() / 2);
  EXPECT_LE(max_difference(pixels_of(decode_image(fine.data)), pixels_of(image)), 90);
  EXPECT_EQ(decode_image(codecs.encode(testing::grey(image), "webp").data).channels, 3);
}

TEST(WebP, AnyCropIsThePartOfTheWhole) {
  const Image image = testing::photo(61, 53, 3);
  for (const io::Bytes& file :
       {lossless_webp(image), decode::standard_codecs()->encode(image, "webp").data}) {
    const Image whole = decode_image(file);
    for (const int top : {0, 1, 14, 29}) {
      const decode::ImageDecoder crop(
          {.transforms = {decode::CenterCrop{{61 - 2 * top, 31}}}, .dtype = decode::DType::kUInt8});
      EXPECT_EQ(testing::decoded(crop, file), testing::window_of(whole, top, 11, 61 - 2 * top, 31))
          << top;
    }
  }
}

TEST(WebP, RefusesAnimationsAndWhatIsCut) {
  const io::Bytes file = lossless_webp(testing::photo(41, 67, 1));
  EXPECT_EQ(fault_of([&] { decode_image(file.slice(0, file.size() - 1)); }), ErrorCode::kTruncated);
  std::string animated("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x0f\0\0\x0f\0\0", 30);
  EXPECT_THAT(message_of(io::Bytes::copy_of(animated)), ::testing::HasSubstr("animation"));
}

TEST(Tiff, EveryFormOfOnePictureGivesItsPixels) {
  const Image image = testing::photo(45, 70, 4);
  const std::vector<testing::TiffOptions> forms = {
      {},
      {.bits = 16},
      {.compression = 5},
      {.bits = 16, .compression = 8},
      {.compression = 8, .tiled = true},
      {.compression = 5, .planes = true},
  };
  for (const Image& picture : {image, testing::grey(image)}) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const Image back = decode_image(build_tiff(picture, forms[i]));
      EXPECT_EQ(back.channels, picture.channels) << i;
      EXPECT_EQ(pixels_of(back), pixels_of(picture)) << i;
      EXPECT_TRUE(back.untidy.empty()) << back.untidy;
    }
  }
  const Image grey = testing::grey(image);
  EXPECT_EQ(pixels_of(decode_image(build_tiff(grey, {.min_is_white = true}))), pixels_of(grey));
}

TEST(Tiff, AlphaIsNotMultipliedIn) {
  Image image = testing::photo(20, 30, 5);
  std::vector<std::byte> pixels;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    pixels.push_back(image.pixels.span()[i]);
    if (i % 3 == 2) pixels.push_back(static_cast<std::byte>(i % 256));
  }
  image.pixels = io::Bytes::take(std::move(pixels));
  image.channels = 4;
  const Image back = decode_image(build_tiff(image));
  EXPECT_EQ(back.channels, 4);
  EXPECT_EQ(pixels_of(back), pixels_of(image));
  EXPECT_THAT(message_of(build_tiff(image, {.tiled = true})), ::testing::HasSubstr("alpha"));
}

TEST(Tiff, SamplesOfNoStatedMeaningAreLeftOut) {
  const Image image = testing::photo(45, 70, 11);
  for (const Image& picture : {image, testing::grey(image)}) {
    for (const int bits : {8, 16}) {
      for (const int extra : {1, 2, 5}) {
        for (const bool planes : {true, false}) {
          // RGB and one more beside it are taken for RGBA, as viewers do.
          if (!planes && extra == 1 && picture.channels == 3) continue;
          const Image back = decode_image(build_tiff(
              picture, {.bits = bits, .compression = 5, .planes = planes, .extra = extra}));
          EXPECT_EQ(back.channels, picture.channels) << bits << " " << extra << " " << planes;
          EXPECT_EQ(pixels_of(back), pixels_of(picture)) << bits << " " << extra << " " << planes;
        }
      }
    }
  }
  Image alpha = testing::photo(20, 30, 12);
  std::vector<std::byte> pixels;
  for (std::size_t i = 0; i < alpha.pixels.size(); ++i) {
    pixels.push_back(alpha.pixels.span()[i]);
    if (i % 3 == 2) pixels.push_back(static_cast<std::byte>(i % 256));
  }
  alpha.pixels = io::Bytes::take(std::move(pixels));
  alpha.channels = 4;
  EXPECT_EQ(pixels_of(decode_image(build_tiff(alpha, {.planes = true}))), pixels_of(alpha));
}

TEST(Tiff, WhatCannotBeReadIsNotCalledDamaged) {
  EXPECT_EQ(decode_image(testing::build_cmyk_tiff(20, 30, 8)).channels, 3);
  EXPECT_EQ(fault_of([] { decode_image(testing::build_cmyk_tiff(20, 30, 16)); }),
            ErrorCode::kUnsupported);
  // A JPEG in it whose frame says that it is lossless, which libjpeg-turbo 2 does not read.
  const io::Bytes file = build_tiff(testing::photo(32, 32, 13), {.compression = 7});
  std::string lossless(file.text());
  const std::size_t frame = lossless.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  lossless[frame + 1] = '\xc3';
  EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(lossless)); }), ErrorCode::kUnsupported);
  // 259 is the tag of the compression, a short.
  std::string packed(build_tiff(testing::photo(20, 30, 14)).text());
  const std::size_t tag = packed.find(std::string("\x03\x01\x03\x00\x01\x00\x00\x00\x01\x00", 10));
  ASSERT_NE(tag, std::string::npos);
  packed.replace(tag + 8, 2, "\x99\x99");
  EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(packed)); }), ErrorCode::kUnsupported);
}

TEST(Tiff, OnlyTheFirstPageIsReadAndThatIsSaid) {
  const Image image = testing::photo(20, 30, 6);
  const Image back = decode_image(build_tiff(image, {.pages = 3}));
  EXPECT_EQ(pixels_of(back), pixels_of(image));
  EXPECT_EQ(back.untidy, "TIFF: pages behind the first");
}

TEST(Tiff, IsTurnedByItsOrientationIfAsked) {
  const Image image = testing::photo(20, 30, 7);
  const io::Bytes file = build_tiff(image, {.orientation = 3});
  EXPECT_EQ(pixels_of(decode_image(file)), pixels_of(image));
  const Image turned = decode_image(file, {.apply_orientation = true});
  EXPECT_EQ(turned.row(0)[0], image.row(19)[29 * 3]);
}

TEST(Tiff, LevelsOf16BitsAreKept) {
  std::vector<std::uint16_t> levels;
  for (int i = 0; i < 12 * 8; ++i) levels.push_back(static_cast<std::uint16_t>(i * 683));
  const decode::ImageDecoder decoder({.transforms = {decode::CenterCrop{{8, 12}}},
                                      .channels = 1,
                                      .dtype = decode::DType::kUInt16,
                                      .interpolation = decode::Interpolation::kNearest});
  EXPECT_EQ(testing::decoded<std::uint16_t>(decoder, testing::build_tiff_levels(levels, 12)),
            levels);
}

TEST(Tiff, HostileSizesTakeNoMemory) {
  io::Bytes file = build_tiff(testing::photo(20, 30, 8));
  EXPECT_EQ(fault_of([&] { decode_image(file, {.limits = {.max_pixels = 599}}); }),
            ErrorCode::kExhausted);
  EXPECT_EQ(fault_of([&] { decode_image(file.slice(0, file.size() / 2)); }).has_value(), true);
  EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(std::string("II*\0\x08\0\0\0", 8))); }),
            ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace millrace
