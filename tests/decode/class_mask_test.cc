// Masks of class numbers: exact from every kind of file, under every geometry.
#include "decode/class_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "decode/encode.h"
#include "decode/paired_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/png_builder.h"

namespace millrace {
namespace {

using decode::ClassImage;
using decode::ClassMask;
using decode::decode_classes;
using decode::DType;
using decode::Interpolation;
using testing::fault_of;
using ::testing::HasSubstr;

io::Bytes bytes_of(const std::string& text) { return io::Bytes::copy_of(text); }

template <typename Call>
std::string mask_message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing";
}

ClassImage random_mask(int height, int width, std::uint64_t classes) {
  KeyedRng rng({.seed = 8, .purpose = Purpose::kSynthetic});
  ClassImage mask{.height = height, .width = width, .labels = {}};
  for (int i = 0; i < height * width; ++i)
    mask.labels.push_back(static_cast<std::int64_t>(rng.below(classes)));
  return mask;
}

/// A picture of a mask in its table's colours.
io::Bytes painted(const ClassImage& mask, const std::vector<decode::ClassColour>& table) {
  std::vector<std::byte> pixels;
  for (const std::int64_t label : mask.labels)
    for (const std::uint8_t value : table[static_cast<std::size_t>(label)].rgb)
      pixels.push_back(std::byte{value});
  return decode::encode_png({mask.height, mask.width, 3, io::Bytes::take(std::move(pixels))});
}

const std::vector<decode::ClassColour> kTable = {{.rgb = {128, 64, 128}, .label = 0},
                                                 {.rgb = {128, 64, 129}, .label = 300},
                                                 {.rgb = {0, 0, 0}, .label = 255},
                                                 {.rgb = {7, 7, 7}, .label = 3}};

TEST(ClassMask, ReadsTheNumbersOfEveryGreyAndPalettePng) {
  for (const int type : {0, 3, 4}) {
    for (const int depth : {1, 2, 4, 8, 16}) {
      if ((type == 3 && depth == 16) || (type == 4 && depth < 8)) continue;
      for (const bool interlaced : {false, true}) {
        for (const bool transparent : {false, true}) {
          if (type == 4 && transparent) continue;
          const auto png = testing::build_png({.colour_type = type,
                                               .bit_depth = depth,
                                               .interlaced = interlaced,
                                               .transparent = transparent},
                                              5);
          const ClassImage mask = decode_classes(png.file, {.ignore = -1});
          EXPECT_EQ(mask.height, 13);
          EXPECT_EQ(mask.width, 19);
          EXPECT_EQ(mask.labels, png.numbers) << "type " << type << " depth " << depth;
        }
      }
    }
  }
}

TEST(ClassMask, ReadsTheNumbersOfNetpbmUnscaled) {
  using Labels = std::vector<std::int64_t>;
  EXPECT_EQ(decode_classes(bytes_of("P5 3 1 12\n\x01\x0c\x05"), {}).labels, (Labels{1, 12, 5}));
  EXPECT_EQ(decode_classes(bytes_of(std::string("P5 2 1 1000\n\x03\xe8\x00\x02", 16)), {}).labels,
            (Labels{1000, 2}));
  EXPECT_EQ(decode_classes(bytes_of("P2 3 1 700\n 1 699 5\n"), {}).labels, (Labels{1, 699, 5}));
  EXPECT_EQ(decode_classes(bytes_of("P4 3 1\n\xA0"), {}).labels, (Labels{1, 0, 1}));
  EXPECT_EQ(fault_of([] { decode_classes(bytes_of("P2 1 1 7\n8\n"), {}); }), ErrorCode::kCorrupt);
}

TEST(ClassMask, ReadsColoursByTheirTable) {
  const ClassImage drawn = random_mask(20, 30, kTable.size());
  const ClassImage mask = decode_classes(painted(drawn, kTable), {.colours = kTable});
  for (std::size_t i = 0; i < drawn.labels.size(); ++i)
    ASSERT_EQ(mask.labels[i], kTable[static_cast<std::size_t>(drawn.labels[i])].label);
  const std::string unknown = mask_message_of([&] {
    auto table = kTable;
    table.pop_back();
    decode_classes(painted({.height = 1, .width = 3, .labels = {0, 1, 3}}, kTable),
                   {.colours = table});
  });
  EXPECT_THAT(unknown, HasSubstr("7 7 7 at row 0, column 2"));
}

TEST(ClassMask, APaletteIsItsIndicesUnlessColoursAreAskedFor) {
  const ClassImage mask{.height = 1, .width = 4, .labels = {3, 2, 1, 0}};
  const std::vector<decode::RgbColour> palette = {kTable[0].rgb, kTable[1].rgb, kTable[2].rgb,
                                                  kTable[3].rgb};
  const io::Bytes file = decode::encode_mask_png(mask, palette);
  EXPECT_EQ(decode_classes(file, {}).labels, mask.labels);
  EXPECT_EQ(decode_classes(file, {.colours = kTable}).labels,
            (std::vector<std::int64_t>{3, 255, 300, 0}));
}

TEST(ClassMask, IsWrittenAsItIsRead) {
  const std::vector<decode::RgbColour> colours = {{1, 2, 3}, {4, 5, 6}, {9, 9, 9}};
  for (const std::uint64_t classes : {3U, 200U, 65536U}) {
    const ClassImage mask = random_mask(31, 17, classes);
    const io::Bytes file = decode::encode_mask_png(mask, colours);
    EXPECT_EQ(decode_classes(file, {.ignore = -1}).labels, mask.labels) << classes;
  }
  EXPECT_EQ(fault_of([] { decode::encode_mask_png({.height = 1, .width = 1, .labels = {-1}}); }),
            ErrorCode::kInvalidArgument);
}

TEST(ClassMask, NamesAFileThatIsNotAMask) {
  const auto photo = testing::photo(9, 9, 1);
  EXPECT_THAT(mask_message_of([&] { decode_classes(decode::encode_jpeg(photo), {}); }),
              HasSubstr("JPEG"));
  EXPECT_THAT(mask_message_of([&] { decode_classes(decode::encode_png(photo), {}); }),
              HasSubstr("a table must say which class each colour is"));
  const io::Bytes high = decode::encode_mask_png({.height = 1, .width = 3, .labels = {0, 255, 12}});
  EXPECT_THAT(mask_message_of([&] { decode_classes(high, {.classes = 12}); }),
              HasSubstr("12 at row 0, column 2: there are 12 classes, and 255 is ignored"));
  EXPECT_EQ(decode_classes(high, {.classes = 13}).labels[1], 255);
  EXPECT_NE(mask_message_of([&] { decode_classes(high, {.ignore = -1, .classes = 13}); }),
            "nothing");
  EXPECT_EQ(fault_of([&] {
              auto table = kTable;
              table.push_back({.rgb = kTable[0].rgb, .label = 1});
              decode_classes(high, {.colours = table});
            }),
            ErrorCode::kInvalidArgument);
}

TEST(ClassMask, SeesTheGeometryOfItsPictureExactly) {
  // The picture's colour encodes the class: red is the low byte, green the high one.
  const ClassImage mask = random_mask(45, 60, 1000);
  std::vector<std::byte> pixels;
  for (const std::int64_t label : mask.labels) {
    pixels.push_back(static_cast<std::byte>(label & 255));
    pixels.push_back(static_cast<std::byte>(label >> 8));
    pixels.push_back(std::byte{0});
  }
  const std::vector<io::Bytes> files = {
      decode::encode_png({45, 60, 3, io::Bytes::take(std::move(pixels))}),
      decode::encode_mask_png(mask)};
  const std::vector<std::vector<decode::Transform>> geometries = {
      {decode::RandomResizedCrop{.size = {24, 40}, .area = {0.1, 0.5}},
       decode::RandomHorizontalFlip{}},
      {decode::RandomCrop{.size = {20, 31}}, decode::RandomHorizontalFlip{}},
      {decode::Resize{.size = {36, 48}}, decode::RandomHorizontalFlip{}}};
  for (const auto& geometry : geometries) {
    const decode::PairedDecoder decoder(
        geometry, {{.dtype = DType::kUInt8, .interpolation = Interpolation::kNearest},
                   {.channels = 1,
                    .dtype = DType::kInt64,
                    .interpolation = Interpolation::kNearest,
                    .classes = ClassMask{.ignore = -1, .classes = 1000}}});
    std::vector<std::uint8_t> picture(decoder.output(0).num_bytes());
    std::vector<std::int64_t> labels(static_cast<std::size_t>(decoder.output(1).num_values()));
    const std::vector<decode::PairedImage> images = {
        {files[0], std::as_writable_bytes(std::span(picture))},
        {files[1], std::as_writable_bytes(std::span(labels))}};
    for (std::uint64_t index = 0; index < 50; ++index) {
      decoder.decode(images, {.index = index});
      for (std::size_t i = 0; i < labels.size(); ++i)
        ASSERT_EQ(labels[i], picture[3 * i] + 256 * picture[3 * i + 1]);
    }
  }
}

TEST(ClassMask, PaddingIsIgnored) {
  const io::Bytes file = decode::encode_mask_png({.height = 1, .width = 2, .labels = {0, 9}});
  const decode::ImageDecoder decoder({.transforms = {decode::CenterCrop{.size = {3, 4}}},
                                      .channels = 1,
                                      .dtype = DType::kInt64,
                                      .interpolation = Interpolation::kNearest,
                                      .classes = ClassMask{.ignore = 77}});
  std::vector<std::int64_t> labels(12);
  decoder.decode(file, {}, std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{77, 77, 77, 77, 77, 0, 9, 77, 77, 77, 77, 77}));
}

TEST(ClassMask, NeedsADecoderThatKeepsNumbers) {
  const auto refuses = [](decode::ImageDecoderOptions options) {
    options.transforms.insert(options.transforms.begin(), decode::Resize{{8, 8}});
    options.classes = ClassMask{};
    return fault_of([&] { decode::ImageDecoder decoder(options); }) == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses({.channels = 1, .dtype = DType::kInt64}));
  EXPECT_TRUE(refuses({.dtype = DType::kInt64, .interpolation = Interpolation::kNearest}));
  EXPECT_TRUE(refuses({.channels = 1, .interpolation = Interpolation::kNearest}));
  EXPECT_TRUE(refuses({.transforms = {decode::ColorJitter{}},
                       .channels = 1,
                       .dtype = DType::kInt64,
                       .interpolation = Interpolation::kNearest}));
}

TEST(Levels, Of16BitPngsAreKeptUnderEveryGeometry) {
  for (const int depth : {8, 16}) {
    const auto png = testing::build_png({.colour_type = 0, .bit_depth = depth}, 7);
    const decode::ImageDecoder decoder({.transforms = {decode::CenterCrop{{13, 19}}},
                                        .channels = 1,
                                        .dtype = decode::DType::kUInt16,
                                        .interpolation = decode::Interpolation::kNearest});
    const auto levels = testing::decoded<std::uint16_t>(decoder, png.file);
    EXPECT_EQ(std::vector<std::int64_t>(levels.begin(), levels.end()), png.numbers) << depth;
    const decode::ImageDecoder padded({.transforms = {decode::CenterCrop{{15, 19}}},
                                       .channels = 1,
                                       .dtype = decode::DType::kUInt16,
                                       .interpolation = decode::Interpolation::kNearest});
    EXPECT_EQ(testing::decoded<std::uint16_t>(padded, png.file)[0], 0);
  }
  const auto colours = testing::build_png({.colour_type = 2}, 7);
  const decode::ImageDecoder decoder({.transforms = {decode::CenterCrop{{13, 19}}},
                                      .channels = 1,
                                      .dtype = decode::DType::kUInt16,
                                      .interpolation = decode::Interpolation::kNearest});
  EXPECT_EQ(testing::fault_of([&] { testing::decoded<std::uint16_t>(decoder, colours.file); }),
            ErrorCode::kUnsupported);
  for (const decode::Interpolation how :
       {decode::Interpolation::kBilinear, decode::Interpolation::kNearest}) {
    const int channels = how == decode::Interpolation::kNearest ? 3 : 1;
    EXPECT_EQ(testing::fault_of([&] {
                decode::ImageDecoder({.transforms = {decode::CenterCrop{{8, 8}}},
                                      .channels = channels,
                                      .dtype = decode::DType::kUInt16,
                                      .interpolation = how});
              }),
              ErrorCode::kInvalidArgument);
  }
}

decode::ImageDecoderOptions grey_values(decode::GreyValues values, int height = 13) {
  return {.transforms = {decode::CenterCrop{{height, 19}}},
          .channels = 1,
          .padding = -1.0F,
          .values = values};
}

TEST(GreyValues, Of16BitsAreKeptAsSharesOfTheLevelThatIsOne) {
  const auto png = testing::build_png({.colour_type = 0, .bit_depth = 16}, 7);
  const auto shares = [&](decode::GreyValues values) {
    return testing::decoded<float>(decode::ImageDecoder(grey_values(values)), png.file);
  };
  const auto whole = shares({});
  const auto measured = shares({.one = 20480});
  ASSERT_EQ(whole.size(), png.numbers.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i], static_cast<float>(png.numbers[i]) / 65535.0F);
    EXPECT_EQ(measured[i], static_cast<float>(png.numbers[i]) / 20480.0F);
  }
  const decode::ImageDecoder padded(grey_values({}, 15));
  EXPECT_EQ(testing::decoded<float>(padded, png.file)[0], -1.0F) << "what is padded has no level";
}

TEST(GreyValues, OfALevelThatStandsForNoneAreNotANumber) {
  const auto png = testing::build_png({.colour_type = 0, .bit_depth = 16}, 7);
  const int none = static_cast<int>(png.numbers[3]);
  const auto values =
      testing::decoded<float>(decode::ImageDecoder(grey_values({.none = none})), png.file);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::isnan(values[i]), png.numbers[i] == none) << i;
}

// Of 8 bits they are decoded as ever, unless something is said of the levels.
TEST(GreyValues, Of8BitsChangeNoBitByThemselves) {
  const auto png = testing::build_png({.colour_type = 0, .bit_depth = 8}, 7);
  const auto resized = [&](std::optional<decode::GreyValues> values) {
    return testing::decoded<float>(
        decode::ImageDecoder(
            {.transforms = {decode::Resize{{9, 11}}}, .channels = 1, .values = values}),
        png.file);
  };
  EXPECT_EQ(resized(decode::GreyValues()), resized(std::nullopt));
  for (const float value : resized(decode::GreyValues{.one = 100})) {
    const float level = value * 100;
    EXPECT_NEAR(level, std::round(level), 1e-4F) << "to the nearest, not between levels";
  }
}

TEST(GreyValues, AreOfPlainGreyFloats) {
  const auto png = testing::build_png({.colour_type = 0, .bit_depth = 8}, 7);
  const auto fault = [&](decode::ImageDecoderOptions options) {
    options.transforms.insert(options.transforms.begin(), decode::Resize{{8, 8}});
    return fault_of([&] { decode::ImageDecoder decoder(options); });
  };
  using decode::GreyValues;
  EXPECT_EQ(fault({.values = GreyValues()}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault({.channels = 1, .dtype = DType::kBFloat16, .values = GreyValues()}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault({.transforms = {decode::Normalize{.mean = {0.5F}, .std = {1.0F}}},
                   .channels = 1,
                   .values = GreyValues()}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault({.channels = 1, .values = GreyValues{.one = 65536}}),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
