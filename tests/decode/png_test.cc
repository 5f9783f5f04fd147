#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/resize.h"
#include "io/base/hash.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/png_builder.h"

namespace millrace {
namespace {

using testing::build_png;
using testing::BuiltPng;
using testing::fault_of;
using testing::PngShape;

// Every valid pair of colour type and depth, interlaced or not, with and without transparency.
std::vector<PngShape> all_shapes() {
  const std::vector<std::pair<int, std::vector<int>>> depths = {
      {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}};
  std::vector<PngShape> shapes;
  for (const auto& [colour_type, of_type] : depths) {
    for (const int depth : of_type) {
      for (const bool interlaced : {false, true}) {
        shapes.push_back({colour_type, depth, interlaced, false});
        if (colour_type < 4) shapes.push_back({colour_type, depth, interlaced, true});
      }
    }
  }
  return shapes;
}

std::string name_of_shape(const PngShape& shape) {
  return "type " + std::to_string(shape.colour_type) + " depth " + std::to_string(shape.bit_depth) +
         (shape.interlaced ? " interlaced" : "") + (shape.transparent ? " transparent" : "");
}

TEST(Png, EveryTypeAndDepthIsExact) {
  for (PngShape shape : all_shapes()) {
    for (const auto& [height, width] : {std::pair{13, 19}, {1, 1}, {3, 5}, {32, 32}}) {
      shape.height = height;
      shape.width = width;
      const BuiltPng png = build_png(shape, 1);
      EXPECT_EQ(testing::pixels_of(decode::decode_image(png.file, {.channels = 3})), png.rgb)
          << name_of_shape(shape);
      EXPECT_EQ(testing::pixels_of(decode::decode_image(png.file, {.channels = 4})), png.rgba)
          << name_of_shape(shape);
    }
  }
}

/// The transparent colour's unused bits are set, as Pillow writes 255 for the white of one bit.
std::string with_high_bits(std::string file, int bit_depth) {
  const std::size_t type = file.find("tRNS");
  const std::size_t size = static_cast<unsigned char>(file[type - 1]);
  for (std::size_t i = 0; i < size; i += 2) {
    const auto low = static_cast<unsigned char>(file[type + 5 + i]);
    file[type + 4 + i] = '\xff';
    file[type + 5 + i] = static_cast<char>(low | (0xFFU << static_cast<unsigned>(bit_depth)));
  }
  const std::uint32_t crc = crc32(std::as_bytes(std::span(file)).subspan(type, 4 + size));
  for (std::size_t i = 0; i < 4; ++i)
    file[type + 4 + size + i] = static_cast<char>(crc >> (24 - 8 * i));
  return file;
}

TEST(Png, OfATransparentColourOnlyTheBitsOfASampleCount) {
  for (const auto& [colour_type, depth] :
       {std::pair{0, 1}, std::pair{0, 2}, std::pair{0, 4}, std::pair{0, 8}, std::pair{2, 8}}) {
    const BuiltPng png =
        build_png({.colour_type = colour_type, .bit_depth = depth, .transparent = true}, 5);
    const io::Bytes file = io::Bytes::copy_of(with_high_bits(std::string(png.file.text()), depth));
    EXPECT_EQ(testing::pixels_of(decode::decode_image(file, {.channels = 3})), png.rgb) << depth;
    EXPECT_EQ(testing::pixels_of(decode::decode_image(file, {.channels = 4})), png.rgba) << depth;
    EXPECT_FALSE(decode::decode_image(file).untidy.empty()) << "and that is said";
  }
}

TEST(Png, ADecoderCutsItsWindowOutOfEveryType) {
  const auto crop = testing::plain_decoder({decode::CenterCrop{{5, 7}}});
  for (const PngShape& shape : all_shapes()) {
    const BuiltPng png = build_png(shape, 2);
    const decode::Image whole{13, 19, 3, io::Bytes::copy_of(std::as_bytes(std::span(png.rgb)))};
    EXPECT_EQ(testing::decoded(crop, png.file), testing::window_of(whole, 4, 6, 5, 7))
        << name_of_shape(shape);
  }
}

TEST(Png, APaletteMaskKeepsItsIndices) {
  const decode::ImageDecoder decoder({.transforms = {decode::Resize{{13, 19}}},
                                      .channels = 1,
                                      .dtype = decode::DType::kInt64,
                                      .interpolation = decode::Interpolation::kNearest,
                                      .palette_indices = true});
  for (const int depth : {1, 2, 4, 8}) {
    const BuiltPng png = build_png({.colour_type = 3, .bit_depth = depth}, 3);
    const auto mask = testing::decoded<std::int64_t>(decoder, png.file);
    EXPECT_TRUE(std::ranges::equal(mask, png.indices)) << depth;
  }
}

TEST(Png, DamageOfEveryKindIsRefused) {
  const std::string file(build_png({}, 4).file.text());
  const auto refused = [](const std::string& text) {
    return fault_of([&] { decode::decode_image(io::Bytes::copy_of(text)); }).has_value();
  };
  const auto changed = [&](std::size_t at, char value) {
    std::string text = file;
    text[at] = value;
    return text;
  };
  ASSERT_FALSE(refused(file));
  EXPECT_TRUE(refused(changed(24, 3)));     // a depth that RGB does not have
  EXPECT_TRUE(refused(changed(25, 5)));     // an unknown colour type
  EXPECT_TRUE(refused(changed(26, 1)));     // an unknown compression
  EXPECT_TRUE(refused(changed(30, 0x55)));  // the header's checksum
  EXPECT_TRUE(refused(changed(file.size() - 20, 0x55)));
  const std::size_t data = file.find("IDAT") - 4;
  EXPECT_TRUE(refused(file.substr(0, data) + file.substr(file.find("IEND") - 4)));  // no pixels
  EXPECT_TRUE(refused(file.substr(0, 8) + file.substr(33)));                        // no header
  EXPECT_TRUE(refused(file.substr(0, file.size() - 12)));                           // no end
}

}  // namespace
}  // namespace millrace
