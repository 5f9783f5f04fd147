// Turns, perspectives and padding among crops, resizes and flips; pictures with their masks.
#include "decode/geometry.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "decode/encode.h"
#include "decode/paired_decoder.h"
#include "decode/transforms.h"
#include "io/component/component_text.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace geometry_test {

using decode::Geometry;
using decode::Image;
using decode::Interpolation;
using testing::decoded;
using testing::plain_decoder;
using testing::window_of;

std::vector<decode::Transform> calls(const std::string& text) {
  return parse(text, decode::standard_transforms());
}

std::vector<std::uint8_t> seen(const std::string& text, const io::Bytes& file,
                               const decode::SampleId& id = {}) {
  return decoded(plain_decoder(calls(text)), file, id);
}

Image picture_of(const std::vector<std::uint8_t>& levels, int height, int width) {
  return {height, width, 3, io::Bytes::copy_of(std::as_bytes(std::span(levels)))};
}

const std::vector<std::string>& turns() {
  static const std::vector<std::string> all = {
      "rotate(20..20)", "affine(-30..-30, [0.1, 0.2], 0.8..0.8, shear_x=12..12, fill=[9, 8, 7])",
      "perspective(0.6, 1)", "rotate(33..33, interpolation=bicubic)",
      "rotate(75..75, interpolation=nearest, fill=[200])"};
  return all;
}

TEST(Geometry, ACropOfATurnIsCutFromTheWholeTurn) {
  const Image image = testing::photo(50, 70, 4);
  for (const io::Bytes& file : {decode::encode_png(image), testing::build_jpeg(image, {})}) {
    for (const std::string& turn : turns()) {
      const Image whole = picture_of(seen("ccrop(50x70), " + turn, file), 50, 70);
      EXPECT_EQ(seen("ccrop(50x70), " + turn + ", ccrop(21x30)", file),
                window_of(whole, 14, 20, 21, 30))
          << turn;
      EXPECT_EQ(seen("ccrop(50x70), " + turn + ", ccrop(60x80)", file),
                window_of(whole, -5, -5, 60, 80))
          << turn << ": zeros around, whatever its fill";
    }
  }
}

TEST(Geometry, ATurnOfACropSeesTheCropAlone) {
  const Image image = testing::photo(50, 70, 4);
  const io::Bytes file = decode::encode_png(image);
  const io::Bytes middle = decode::encode_png(picture_of(window_of(image, 14, 20, 21, 30), 21, 30));
  for (const std::string& turn : turns())
    EXPECT_EQ(seen("ccrop(21x30), " + turn, file), seen("ccrop(21x30), " + turn, middle)) << turn;
}

TEST(Geometry, ATurnAfterAResizeIsOfTheResizedPicture) {
  const io::Bytes file = decode::encode_png(testing::photo(90, 120, 6));
  const io::Bytes resized = decode::encode_png(picture_of(seen("resize(40x60)", file), 40, 60));
  for (const std::string& turn : turns()) {
    EXPECT_EQ(seen("resize(40x60), " + turn, file), seen("ccrop(40x60), " + turn, resized)) << turn;
    const io::Bytes turned =
        decode::encode_png(picture_of(seen("ccrop(90x120), " + turn, file), 90, 120));
    EXPECT_EQ(seen("ccrop(90x120), " + turn + ", resize(31x44)", file),
              seen("resize(31x44)", turned))
        << turn;
  }
}

std::vector<std::uint8_t> mirrored(const std::vector<std::uint8_t>& levels, std::size_t width) {
  std::vector<std::uint8_t> out(levels.size());
  for (std::size_t i = 0; i < levels.size() / 3; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      out[3 * i + c] = levels[3 * (i / width * width + width - 1 - i % width) + c];
  return out;
}

TEST(Geometry, FlipsBeforeAndAfterTurnsAreThose) {
  const Image image = testing::photo(50, 70, 4);
  const io::Bytes file = decode::encode_png(image);
  const io::Bytes flipped =
      decode::encode_png(picture_of(mirrored(testing::pixels_of(image), 70), 50, 70));
  for (const std::string& turn : turns()) {
    const auto turned = seen("ccrop(50x70), " + turn, file);
    EXPECT_EQ(seen("ccrop(50x70), " + turn + ", hflip(1)", file), mirrored(turned, 70)) << turn;
    EXPECT_LE(testing::max_difference(seen("ccrop(50x70), hflip(1), " + turn, file),
                                      seen("ccrop(50x70), " + turn, flipped)),
              1)
        << turn;
    EXPECT_LE(testing::max_difference(
                  seen("ccrop(50x70), vflip(1), hflip(1), " + turn + ", hflip(1), vflip(1)", file),
                  seen("ccrop(50x70), hflip(1), vflip(1), " + turn + ", vflip(1), hflip(1)", file)),
              0)
        << turn;
  }
}

TEST(Geometry, TurnsFollowingOneAnotherAreOneSampling) {
  Geometry geometry(70, 50);
  const auto turn = [&](const std::string& call) {
    KeyedRng rng({});
    dynamic_cast<const decode::GeometryStep&>(*calls(call)[0].make()).choose(geometry, rng);
  };
  turn("ccrop(40x60)");
  turn("rotate(20..20)");
  turn("hflip(1)");
  turn("affine(10..10)");
  turn("ccrop(30)");
  EXPECT_EQ(geometry.stages().size(), 1U) << "crops, turns and flips";
  turn("rotate(5..5)");
  EXPECT_EQ(geometry.stages().size(), 2U) << "what a crop has cut off does not come back";
  turn("resize(20x20)");
  EXPECT_EQ(geometry.stages().size(), 3U);
  Geometry straight(70, 50);
  straight.crop({5, 5, 40, 40});
  straight.pad(3, decode::Border::kConstant, {});
  straight.resize(20, 20);
  EXPECT_FALSE(straight.samples()) << "zeros are no sampling";
}

TEST(Geometry, ARandomCropMayBePaddedWithTheMirrorImage) {
  const Image image = testing::photo(12, 14, 2);
  const io::Bytes file = decode::encode_png(image);
  for (const std::string mode : {"reflect", "edge", "symmetric"}) {
    const Image padded =
        picture_of(seen("ccrop(12x14), pad(5, padding_mode=" + mode + ")", file), 22, 24);
    for (std::uint64_t index = 0; index < 50; ++index) {
      const decode::SampleId id{.index = index};
      KeyedRng rng = id.rng(Purpose{4});
      const int y = static_cast<int>(rng.below(22 - 9 + 1));
      const int x = static_cast<int>(rng.below(24 - 9 + 1));
      ASSERT_EQ(seen("rcrop(9, padding=5, padding_mode=" + mode + ")", file, id),
                window_of(padded, y, x, 9, 9))
          << mode;
    }
  }
}

/// A mask of two classes, and a picture that is white where the mask is 1.
struct Pair {
  io::Bytes image;
  io::Bytes mask;
};

Pair pair_of(int height, int width) {
  std::vector<std::uint8_t> levels;
  std::vector<std::uint8_t> numbers;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const bool in = (y / 9 + x / 7) % 2 == 0;
      levels.insert(levels.end(), 3, in ? 255 : 100);
      numbers.push_back(in ? 1 : 2);
    }
  const Image mask{height, width, 1, io::Bytes::copy_of(std::as_bytes(std::span(numbers)))};
  return {decode::encode_pnm(picture_of(levels, height, width)), decode::encode_png(mask)};
}

TEST(Geometry, PicturesAndMasksAreTurnedAlike) {
  const Pair files = pair_of(60, 80);
  const auto geometry = calls(
      "rrc(48, interpolation=nearest), rotate(40, interpolation=nearest, fill=[7]), hflip, "
      "perspective(0.4, interpolation=nearest, fill=[7]), affine(20, [0.1], interpolation=nearest, "
      "fill=[7])");
  const decode::PairedDecoder decoder(geometry, {{.dtype = decode::DType::kUInt8},
                                                 {.channels = 1,
                                                  .dtype = decode::DType::kInt64,
                                                  .interpolation = Interpolation::kNearest,
                                                  .classes = decode::ClassMask{.ignore = -1}}});
  std::vector<std::uint8_t> image(48 * 48 * 3);
  std::vector<std::int64_t> mask(48 * 48);
  int beside = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    const std::array images = {
        decode::PairedImage{files.image, std::as_writable_bytes(std::span(image))},
        decode::PairedImage{files.mask, std::as_writable_bytes(std::span(mask))}};
    decoder.decode(images, {.index = index});
    for (std::size_t i = 0; i < mask.size(); ++i) {
      ASSERT_EQ(mask[i], image[3 * i] == 255 ? 1 : image[3 * i] == 100 ? 2 : -1) << index;
      beside += mask[i] == -1 ? 1 : 0;
    }
  }
  EXPECT_GT(beside, 1000) << "corners that show nothing are ignored";
}

TEST(Geometry, WhatATurnUncoversHasNoValue) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Image white{60, 80, 1, io::Bytes::take(std::vector<std::byte>(4800, std::byte{255}))};
  const io::Bytes file = decode::encode_png(white);
  for (const std::string text :
       {"ccrop(70x70), rotate(30..30), resize(31x29)", "letterbox(40), perspective(0.8, 1)",
        "ccrop(50), pad(4, padding_mode=reflect)", "ccrop(50), pad(4, [255])"}) {
    const decode::ImageDecoder targets({.transforms = calls(text), .channels = 1, .padding = kNaN});
    const auto levels = decoded(plain_decoder(calls(text), 1), file);
    const auto values = decoded<float>(targets, file);
    int none = 0;
    for (std::size_t i = 0; i < values.size(); ++i) none += std::isnan(values[i]) ? 1 : 0;
    if (text.find("pad") == std::string::npos) {
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::isnan(values[i]), levels[i] != 255) << text << " " << i;
      EXPECT_GT(none, 50) << text;
    } else {
      EXPECT_EQ(none, text.find("reflect") == std::string::npos ? 58 * 58 - 50 * 50 : 0) << text;
    }
  }
}

TEST(Geometry, TurnsGiveTheSameBitsOnAnyThread) {
  const io::Bytes file = decode::encode_png(testing::photo(60, 90, 3));
  const auto decoder = plain_decoder(
      calls("rrc(32), rotate(30), affine(10, [0.2], 0.8..1.2, shear_x=8), perspective, hflip"));
  std::vector<std::vector<std::uint8_t>> alone;
  for (std::uint64_t i = 0; i < 40; ++i) alone.push_back(decoded(decoder, file, {.index = i}));
  std::vector<std::jthread> team;
  for (std::uint64_t t = 0; t < 4; ++t)
    team.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 40; ++i) {
        const std::uint64_t at = (i * 7 + t) % 40;
        EXPECT_EQ(decoded(decoder, file, {.index = at}), alone[at]);
      }
    });
}

}  // namespace geometry_test
}  // namespace millrace
