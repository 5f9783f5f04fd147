#include "decode/image.h"

#include <gtest/gtest.h>

#include <string>

#include "decode/encode.h"
#include "decode/sniff.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::decode_image;
using decode::Image;
using testing::fault_of;
using testing::pixels_of;

io::Bytes image_bytes(std::string_view text) { return io::Bytes::copy_of(text); }

TEST(DecodeImage, GivesBackWhatPngAndPnmHold) {
  const Image colour = testing::photo(37, 53, 1);
  const Image grey = testing::grey(colour);
  for (const Image& image : {colour, grey}) {
    for (const io::Bytes& file : {decode::encode_png(image), decode::encode_pnm(image)}) {
      const Image back = decode_image(file);
      EXPECT_EQ(back.channels, image.channels);
      EXPECT_EQ(back.width, 53);
      EXPECT_EQ(pixels_of(back), pixels_of(image));
    }
  }
}

TEST(DecodeImage, KeepsAlphaWhereAskedAndDropsItElsewhere) {
  const Image image{1, 2, 4, image_bytes(std::string_view("\x01\x02\x03\x80\x04\x05\x06\x00", 8))};
  const io::Bytes png = decode::encode_png(image);
  EXPECT_EQ(pixels_of(decode_image(png)), pixels_of(image));
  EXPECT_EQ(pixels_of(decode_image(png, {.channels = 3})),
            (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}));
  const Image opaque = decode_image(decode::encode_png(testing::photo(2, 2, 1)), {.channels = 4});
  EXPECT_EQ(opaque.row(1)[7], 255);
}

TEST(DecodeImage, ReadsEveryPnmKind) {
  const std::vector<std::uint8_t> black_white = {0, 255, 255, 0};
  EXPECT_EQ(pixels_of(decode_image(image_bytes("P1\n# bits\n2 2\n1 0\n01\n"))), black_white);
  EXPECT_EQ(pixels_of(decode_image(image_bytes("P4 2 2\n\x80\x40"))), black_white);
  EXPECT_EQ(pixels_of(decode_image(image_bytes("P2 2 2 5 0 5 # five\n 5 0"))), black_white);
  EXPECT_EQ(pixels_of(decode_image(image_bytes("P3 1 1 100 0 50 100"))),
            (std::vector<std::uint8_t>{0, 128, 255}));
  const Image wide =
      decode_image(image_bytes(std::string_view("P5 2 1 65535\n\x80\x80\xff\xff", 17)));
  EXPECT_EQ(pixels_of(wide), (std::vector<std::uint8_t>{128, 255}));
}

TEST(DecodeImage, RefusesDamagedPnm) {
  for (const char* text : {"P6 2 2 255\nabc", "P6 2", "P5 2 2 255", "P2 2 1 255 7", "P1 2 2 1"}) {
    EXPECT_EQ(fault_of([&] { decode_image(image_bytes(text)); }), ErrorCode::kTruncated) << text;
  }
  for (const char* text : {"P6 0 2 255\nabc", "P6 2 2 0\nxxxxxxxxxxxx", "P5 1 1 70000\nxx",
                           "P2 1 1 9 10", "P6 99999999999 1 255\n", "P6 x 1 255\n", "P1 1 1 2"}) {
    EXPECT_EQ(fault_of([&] { decode_image(image_bytes(text)); }), ErrorCode::kCorrupt) << text;
  }
}

TEST(DecodeImage, MakesLumaOfColour) {
  const Image image = testing::photo(20, 31, 2);
  const Image luma = decode_image(decode::encode_png(image), {.channels = 1});
  EXPECT_EQ(luma.channels, 1);
  EXPECT_LE(testing::max_difference(pixels_of(luma), pixels_of(testing::grey(image))), 1);
}

TEST(DecodeImage, NamesContentThatItCannotDecode) {
  const auto message = [](std::string_view text) {
    try {
      decode_image(image_bytes(text));
    } catch (const Error& error) {
      return std::string(decode::describe_content(std::as_bytes(std::span(text)))) + "|" +
             error.what();
    }
    return std::string();
  };
  EXPECT_NE(message("GIF89a").find("looks like a GIF image"), std::string::npos);
  EXPECT_NE(message("<html><body>404").find("an HTML page"), std::string::npos);
  EXPECT_NE(message("version https://git-lfs.github.com/spec/v1").find("git-LFS pointer"),
            std::string::npos);
  EXPECT_NE(message("").find("an empty field"), std::string::npos);
  EXPECT_NE(message("{\"a").find("unknown data (7b 22 61)"), std::string::npos);
}

TEST(EncodeJpeg, RoundTripsClosely) {
  const Image image = testing::photo(60, 80, 3);
  const Image back = decode_image(decode::encode_jpeg(image, {.quality = 98, .subsample = false}));
  EXPECT_LE(testing::max_difference(pixels_of(back), pixels_of(image)), 12);
  const Image grey = testing::grey(image);
  EXPECT_EQ(decode_image(decode::encode_jpeg(grey)).channels, 1);
  EXPECT_EQ(fault_of([] {
              decode::encode_jpeg(Image{1, 1, 4, image_bytes("abcd")});
            }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
