#include <gtest/gtest.h>

#include "decode/encode.h"
#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/resize.h"
#include "decode/transforms/window.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::decode_image;
using decode::Image;
using testing::build_jpeg;
using testing::fault_of;
using testing::JpegShape;
using testing::pixels_of;

const std::vector<JpegShape>& shapes() {
  static const std::vector<JpegShape> all = {{.sampling = {1, 1}},
                                             {.sampling = {2, 1}},
                                             {.sampling = {2, 2}},
                                             {.sampling = {1, 2}},
                                             {.sampling = {4, 1}},
                                             {.sampling = {4, 2}},
                                             {.sampling = {3, 1}},
                                             {.sampling = {2, 2}, .progressive = true},
                                             {.sampling = {1, 1}, .progressive = true},
                                             {.sampling = {2, 2}, .arithmetic = true},
                                             {.sampling = {2, 2}, .restart_rows = 1}};
  return all;
}

std::string name(const JpegShape& shape) {
  return std::to_string(shape.sampling[0]) + "x" + std::to_string(shape.sampling[1]) +
         (shape.progressive ? " progressive" : "") + (shape.arithmetic ? " arithmetic" : "");
}

TEST(Jpeg, DecodesEverySampling) {
  const Image image = testing::photo(61, 83, 4);
  for (const JpegShape& shape : shapes()) {
    const auto back = pixels_of(decode_image(build_jpeg(image, shape)));
    const auto want = pixels_of(image);
    ASSERT_EQ(back.size(), want.size());
    double error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) error += std::abs(back[i] - want[i]);
    EXPECT_LT(error / static_cast<double>(want.size()), 12) << name(shape);
  }
}

TEST(Jpeg, ARegionHasTheValuesOfTheWhole) {
  const Image image = testing::photo(150, 203, 5);
  for (const JpegShape& shape : shapes()) {
    const io::Bytes file = build_jpeg(image, shape);
    const Image whole = decode_image(file, {.channels = 3});
    for (std::uint64_t index = 0; index < 40; ++index) {
      const int height = 8 + static_cast<int>(index * 7 % 90);
      const int width = 5 + static_cast<int>(index * 13 % 150);
      const auto decoder = testing::plain_decoder({decode::RandomCrop{{height, width}}});
      const decode::SampleId id{.seed = 9, .index = index};
      KeyedRng rng = id.rng(decode::kCropPurpose);
      const int y = static_cast<int>(rng.below(static_cast<std::uint64_t>(150 - height) + 1));
      const int x = static_cast<int>(rng.below(static_cast<std::uint64_t>(203 - width) + 1));
      ASSERT_EQ(testing::decoded(decoder, file, id), testing::window_of(whole, y, x, height, width))
          << name(shape) << " at " << y << ", " << x << ", " << height << " x " << width;
    }
  }
}

// If scans of a progressive file are missing, libjpeg smooths across blocks.
TEST(Jpeg, ARegionOfAnIncompleteFileHasTheValuesOfTheWhole) {
  const Image image = testing::photo(150, 203, 5);
  for (const JpegShape& shape : shapes()) {
    const std::string text(build_jpeg(image, shape).text());
    for (const std::size_t percent : {25U, 50U, 75U, 95U}) {
      const std::string part = text.substr(0, text.size() * percent / 100);
      for (const auto& file : {io::Bytes::copy_of(part), io::Bytes::copy_of(part + "\xff\xd9")}) {
        const Image whole = decode_image(file, {.channels = 3, .tolerate_truncated = true});
        for (const int y : {3, 40, 86}) {
          const decode::ImageDecoder decoder({.transforms = {decode::CenterCrop{{150 - y, 90}}},
                                              .dtype = decode::DType::kUInt8,
                                              .tolerate_truncated = true});
          ASSERT_EQ(testing::decoded(decoder, file),
                    testing::window_of(whole, (y + 1) / 2, 56, 150 - y, 90))
              << name(shape) << ", " << percent << " %, from " << y;
        }
      }
    }
  }
}

TEST(Jpeg, ARegionOfAFileWithoutItsLastScansHasTheValuesOfTheWhole) {
  const std::string text(
      build_jpeg(testing::photo(150, 203, 5), {.sampling = {2, 2}, .progressive = true}).text());
  int scans = 0;
  for (std::size_t at = text.find("\xff\xda"); at != std::string::npos; ++scans) {
    at = text.find("\xff\xda", at + 1);
    const auto file = io::Bytes::copy_of(text.substr(0, at) + "\xff\xd9");
    const Image whole = decode_image(file, {.channels = 3});  // no warning: the file is complete
    const auto decoder = testing::plain_decoder({decode::CenterCrop{{60, 90}}});
    ASSERT_EQ(testing::decoded(decoder, file), testing::window_of(whole, 45, 56, 60, 90)) << scans;
  }
  EXPECT_EQ(scans, 10);
}

TEST(Jpeg, AScaledDecodeIsCloseToTheResizedWhole) {
  const Image image = testing::photo(400, 520, 6);
  const io::Bytes jpeg = build_jpeg(image, {.sampling = {1, 1}, .quality = 98});
  const io::Bytes png = decode::encode_png(decode_image(jpeg));
  for (const int size : {190, 90, 45}) {
    const auto decoder = testing::plain_decoder({decode::Resize{{size, size}}});
    const auto scaled = testing::decoded(decoder, jpeg);
    const auto exact = testing::decoded(decoder, png);
    double error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) error += std::abs(scaled[i] - exact[i]);
    EXPECT_LT(error / static_cast<double>(exact.size()), 4.0) << size;
  }
}

TEST(Jpeg, InksBecomeColours) {
  const Image image = testing::photo(40, 56, 7);
  for (const bool ycck : {false, true}) {
    const io::Bytes file =
        build_jpeg(image, {.sampling = {1, 1}, .inks = true, .inks_as_ycck = ycck, .quality = 100});
    const Image back = decode_image(file);
    EXPECT_EQ(back.channels, 3);
    EXPECT_LE(testing::max_difference(pixels_of(back), pixels_of(image)), 8) << ycck;
  }
}

TEST(Jpeg, NamesWhatItDoesNotRead) {
  const io::Bytes file = decode::encode_jpeg(testing::photo(16, 16, 1));
  const std::size_t frame = file.text().find("\xff\xc0");
  ASSERT_NE(frame, std::string_view::npos);
  const auto lossless = testing::flip(file, frame + 1, 0xC0 ^ 0xC3);
  const auto hierarchical = testing::flip(file, frame + 1, 0xC0 ^ 0xC5);
  const auto deep = testing::flip(file, frame + 4, 8 ^ 12);
  const auto message = [](const io::Bytes& bad) {
    try {
      decode_image(bad);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(lossless), "Unsupported: lossless JPEG");
  EXPECT_EQ(message(hierarchical), "Unsupported: hierarchical JPEG");
  EXPECT_EQ(message(deep), "Unsupported: 12-bit JPEG");
}

TEST(Jpeg, RefusesManyScansBeforeTheyCostTime) {
  const auto progressive = build_jpeg(testing::photo(375, 500, 8), {.progressive = true});
  EXPECT_NO_THROW(decode_image(progressive, {.limits = {.max_scans = 10}}));
  EXPECT_EQ(fault_of([&] { decode_image(progressive, {.limits = {.max_scans = 9}}); }),
            ErrorCode::kExhausted);
  const auto bomb = testing::jpeg_with_scans(progressive, 1000);
  EXPECT_EQ(fault_of([&] { decode_image(bomb); }), ErrorCode::kExhausted);
  // Truncated, the file is rejected before the decoder reaches the cut.
  EXPECT_EQ(fault_of([&] { decode_image(bomb.slice(0, bomb.size() / 2)); }), ErrorCode::kExhausted);
}

TEST(Jpeg, AcceptsBytesAfterTheEnd) {
  const io::Bytes file = decode::encode_jpeg(testing::photo(30, 40, 9));
  const auto longer = io::Bytes::copy_of(std::string(file.text()) + std::string(100, '\0'));
  EXPECT_EQ(pixels_of(decode_image(longer)), pixels_of(decode_image(file)));
}

}  // namespace
}  // namespace millrace
