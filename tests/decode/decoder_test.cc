#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/compositions.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/random_vertical_flip.h"
#include "decode/transforms/resize.h"
#include "decode/transforms/window.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::DType;
using decode::Image;
using decode::ImageDecoder;
using decode::Layout;
using decode::Transform;
using testing::decoded;
using testing::fault_of;
using testing::plain_decoder;
using testing::window_of;

TEST(ImageDecoder, ACentreCropIsTheMiddle) {
  const Image image = testing::photo(31, 45, 1);
  const io::Bytes file = decode::encode_pnm(image);
  EXPECT_EQ(decoded(plain_decoder({decode::CenterCrop{{16, 16}}}), file),
            window_of(image, 8, 14, 16, 16));  // 7.5 and 14.5 round to even
  EXPECT_EQ(decoded(plain_decoder({decode::CenterCrop{{35, 50}}}), file),
            window_of(image, -2, -2, 35, 50));
}

TEST(ImageDecoder, APaddedCropHasZerosAround) {
  const Image image = testing::photo(32, 32, 2);
  const io::Bytes file = decode::encode_pnm(image);
  const auto decoder = plain_decoder({decode::RandomCrop{{32, 32}, 4}});
  std::set<std::pair<int, int>> places;
  for (std::uint64_t index = 0; index < 2000; ++index) {
    const decode::SampleId id{.seed = 3, .index = index};
    KeyedRng rng = id.rng(decode::kCropPurpose);
    const int y = static_cast<int>(rng.below(9)) - 4;
    const int x = static_cast<int>(rng.below(9)) - 4;
    places.emplace(y, x);
    ASSERT_EQ(decoded(decoder, file, id), window_of(image, y, x, 32, 32));
  }
  EXPECT_EQ(places.size(), 81U);
}

TEST(ImageDecoder, AFlipMirrorsHalfOfTheImages) {
  const Image image = testing::photo(9, 23, 3);
  const io::Bytes file = decode::encode_png(image);
  const auto straight = window_of(image, 0, 0, 9, 23);
  std::vector<std::uint8_t> mirrored;
  for (int y = 0; y < 9; ++y) {
    for (int x = 22; x >= 0; --x) {
      const auto pixel = window_of(image, y, x, 1, 1);
      mirrored.insert(mirrored.end(), pixel.begin(), pixel.end());
    }
  }
  const auto decoder = plain_decoder({decode::Resize{{9, 23}}, decode::RandomHorizontalFlip{}});
  int flips = 0;
  for (std::uint64_t index = 0; index < 400; ++index) {
    const auto out = decoded(decoder, file, {.index = index});
    ASSERT_TRUE(out == straight || out == mirrored);
    flips += out == mirrored ? 1 : 0;
  }
  EXPECT_NEAR(flips, 200, 50);
}

TEST(ImageDecoder, AnAlternatingFlipMirrorsEachPictureInEverySecondEpoch) {
  const io::Bytes file = decode::encode_pnm(testing::photo(9, 23, 3));
  const std::vector<Transform> size = {decode::Resize{{9, 23}}};
  const auto straight = decoded(plain_decoder(size), file);
  std::vector<Transform> transforms = size;
  transforms.emplace_back(decode::RandomApply{
      .transforms = {decode::RandomHorizontalFlip{.alternate = true}}, .probability = 1});
  for (const ImageDecoder& decoder :
       {plain_decoder({size[0], decode::RandomHorizontalFlip{.alternate = true}}),
        plain_decoder(transforms)}) {
    int flips = 0;
    for (std::uint64_t sample = 0; sample < 400; ++sample) {
      const auto is_straight = [&](std::uint32_t epoch, std::uint64_t index) {
        return decoded(decoder, file,
                       {.seed = 5, .epoch = epoch, .index = index, .sample = sample}) == straight;
      };
      const bool first = is_straight(0, sample);
      ASSERT_NE(first, is_straight(1, 1000 - sample)) << "wherever it stands in the epoch";
      ASSERT_EQ(first, is_straight(2, sample + 7));
      ASSERT_NE(first, is_straight(3, 0));
      flips += first ? 0 : 1;
    }
    EXPECT_NEAR(flips, 200, 50);
  }
}

TEST(ImageDecoder, AFlipOfAResizeIsTheResizeFlipped) {
  const io::Bytes file = decode::encode_png(testing::photo(50, 70, 4));
  const decode::Resize resize{{33, 29}};
  const auto straight = decoded(plain_decoder({resize}), file);
  const auto flipped = decoded(plain_decoder({resize, decode::RandomHorizontalFlip{1.0}}), file);
  for (std::size_t y = 0; y < 33; ++y) {
    for (std::size_t x = 0; x < 29; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(flipped[(y * 29 + x) * 3 + c], straight[(y * 29 + 28 - x) * 3 + c]);
      }
    }
  }
}

TEST(ImageDecoder, AVerticalFlipOfAnyGeometryIsTheGeometryFlipped) {
  const Image image = testing::photo(50, 70, 4);
  const auto files = {decode::encode_png(image), decode::encode_pnm(image),
                      testing::build_jpeg(image, {})};
  const std::vector<std::vector<Transform>> geometries = {
      {decode::Resize{{33, 29}}},
      {decode::CenterCrop{{20, 90}}},
      {decode::CenterCrop{{60, 31}}, decode::Resize{{17, 50}}},
      {decode::Resize{{50, 20}}, decode::RandomHorizontalFlip{1.0}},
      {decode::Resize{{12, 70}}}};
  for (const io::Bytes& file : files) {
    for (std::vector<Transform> transforms : geometries) {
      const ImageDecoder plain = plain_decoder(transforms);
      const auto straight = decoded(plain, file);
      transforms.emplace_back(decode::RandomVerticalFlip{1.0});
      const auto flipped = decoded(plain_decoder(transforms), file);
      const auto height = static_cast<std::size_t>(plain.output().shape[0]);
      const std::size_t row = straight.size() / height;
      for (std::size_t y = 0; y < height; ++y)
        ASSERT_TRUE(std::equal(flipped.begin() + static_cast<long>(y * row),
                               flipped.begin() + static_cast<long>((y + 1) * row),
                               straight.begin() + static_cast<long>((height - 1 - y) * row)))
            << y << " of " << height;
    }
  }
  const auto windows = [&](std::vector<Transform> transforms) {
    return decoded(plain_decoder(std::move(transforms)), *files.begin());
  };
  EXPECT_EQ(windows({decode::RandomVerticalFlip{1.0}, decode::CenterCrop{{20, 30}},
                     decode::RandomVerticalFlip{1.0}}),
            windows({decode::CenterCrop{{20, 30}}}))
      << "a crop between two flips is of the flipped picture";
}

TEST(ImageDecoder, AWindowOfAResizeIsCutFromTheWholeResize) {
  const io::Bytes file = decode::encode_png(testing::photo(90, 120, 5));
  const auto whole = decoded(plain_decoder({decode::Resize{{64, 64}}}), file);
  const Image picture{64, 64, 3, io::Bytes::copy_of(std::as_bytes(std::span(whole)))};
  const auto crop =
      decoded(plain_decoder({decode::Resize{{64, 64}}, decode::CenterCrop{{31, 40}}}), file);
  EXPECT_EQ(crop, window_of(picture, 16, 12, 31, 40));
  const auto larger =
      decoded(plain_decoder({decode::Resize{{64, 64}}, decode::CenterCrop{{70, 70}}}), file);
  EXPECT_EQ(larger, window_of(picture, -3, -3, 70, 70));
}

TEST(ImageDecoder, SeveralResizesFollowOneAnother) {
  const io::Bytes file = decode::encode_png(testing::photo(90, 120, 6));
  const auto first = decoded(plain_decoder({decode::Resize{{60, 50}}}), file);
  const auto between =
      decode::encode_png({60, 50, 3, io::Bytes::copy_of(std::as_bytes(std::span(first)))});
  const auto once =
      decoded(plain_decoder({decode::Resize{{60, 50}}, decode::Resize{{31, 20}}}), file);
  EXPECT_EQ(once, decoded(plain_decoder({decode::Resize{{31, 20}}}), between));
}

TEST(ImageDecoder, AFlatPictureStaysFlat) {
  const Image image{40, 60, 3,
                    io::Bytes::take(std::vector<std::byte>(40 * 60 * 3, std::byte{201}))};
  const io::Bytes file = decode::encode_png(image);
  for (const int size : {7, 39, 41, 200}) {
    const auto out = decoded(plain_decoder({decode::Resize{{size, size}}}), file);
    EXPECT_EQ(out, std::vector<std::uint8_t>(out.size(), 201)) << size;
  }
}

TEST(ImageDecoder, GreyResizesAsItsThreeEqualChannels) {
  const Image grey = testing::grey(testing::photo(50, 70, 7));
  const io::Bytes file = decode::encode_png(grey);
  const auto one = decoded(plain_decoder({decode::Resize{{61, 37}}}, 1), file);
  const auto three = decoded(plain_decoder({decode::Resize{{61, 37}}}, 3), file);
  for (std::size_t i = 0; i < three.size(); ++i) ASSERT_EQ(three[i], one[i / 3]);
}

// Every dtype and layout against the plain formula.
TEST(ImageDecoder, WritesEveryDTypeAndLayout) {
  const Image image = testing::photo(13, 47, 8);
  const io::Bytes file = decode::encode_pnm(image);
  const auto normalize = decode::Normalize::imagenet();
  for (const Layout layout : {Layout::kHWC, Layout::kCHW}) {
    decode::ImageDecoderOptions options{.transforms = {decode::Resize{{13, 47}}, normalize},
                                        .layout = layout};
    const ImageDecoder floats(options);
    options.dtype = DType::kBFloat16;
    const ImageDecoder halves(options);
    options.dtype = DType::kFloat16;
    const ImageDecoder float16s(options);
    options.dtype = DType::kUInt8;
    options.transforms.pop_back();
    const ImageDecoder bytes(options);
    const auto as_floats = decoded<float>(floats, file);
    const auto as_halves = decoded<std::uint16_t>(halves, file);
    const auto as_float16s = decoded<std::uint16_t>(float16s, file);
    const auto as_bytes = decoded(bytes, file);
    for (std::size_t i = 0; i < as_bytes.size(); ++i) {
      const std::size_t c = layout == Layout::kHWC ? i % 3 : i / (13 * 47);
      const std::size_t pixel = layout == Layout::kHWC ? i / 3 : i % (13 * 47);
      const int value = image.row(static_cast<int>(pixel / 47))[pixel % 47 * 3 + c];
      ASSERT_EQ(as_bytes[i], value);
      const double want = (value / 255.0 - static_cast<double>(normalize.mean[c])) /
                          static_cast<double>(normalize.std[c]);
      ASSERT_NEAR(as_floats[i], want, 1e-6);
      ASSERT_EQ(as_halves[i], decode::to_bfloat16(as_floats[i]));
      ASSERT_EQ(as_float16s[i], decode::to_float16(as_floats[i]));
    }
  }
}

TEST(ImageDecoder, WithoutNormalizeFloatsAreZeroToOne) {
  const Image image{1, 2, 1, io::Bytes::copy_of(std::string_view("\xff\x33"))};
  const ImageDecoder decoder({.transforms = {decode::Resize{{1, 2}}}, .channels = 1});
  const auto out = decoded<float>(decoder, decode::encode_png(image));
  EXPECT_FLOAT_EQ(out[0], 1.0F);
  EXPECT_FLOAT_EQ(out[1], 0.2F);
}

TEST(ImageDecoder, TheSameSampleGivesTheSameBitsOnAnyThread) {
  std::vector<io::Bytes> files;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Image image = testing::photo(60 + static_cast<int>(i) * 31, 90, i);
    files.push_back(i % 2 == 0 ? testing::build_jpeg(image, {}) : decode::encode_png(image));
  }
  const ImageDecoder decoder(
      {.transforms = {decode::RandomResizedCrop{.size = 48}, decode::RandomHorizontalFlip{},
                      decode::Normalize::imagenet()},
       .dtype = DType::kBFloat16});
  std::vector<std::vector<std::uint16_t>> alone;
  for (std::uint64_t i = 0; i < 60; ++i) {
    alone.push_back(decoded<std::uint16_t>(decoder, files[i % 6], {.seed = 5, .index = i}));
  }
  std::vector<std::jthread> team;
  for (std::uint64_t t = 0; t < 4; ++t) {
    team.emplace_back([&, t] {
      for (std::uint64_t i = t; i < 240; i += 4) {
        const std::uint64_t at = (i * 7) % 60;
        EXPECT_EQ(decoded<std::uint16_t>(decoder, files[at % 6], {.seed = 5, .index = at}),
                  alone[at]);
      }
    });
  }
  team.clear();
  EXPECT_NE(alone[0], alone[6]);  // the same file, another index
}

// Pixel (y, x) has red 2x and green 2y, so that a crop shows its position.
Image ramps() {
  std::vector<std::byte> pixels;
  for (int y = 0; y < 100; ++y) {
    for (int x = 0; x < 120; ++x) {
      pixels.insert(pixels.end(), {std::byte(2 * x), std::byte(2 * y), std::byte{0}});
    }
  }
  return {100, 120, 3, io::Bytes::take(std::move(pixels))};
}

TEST(ImageDecoder, RandomResizedCropKeepsToItsRanges) {
  const auto decoder = plain_decoder({decode::RandomResizedCrop{.size = 9, .area = {0.2, 0.6}}});
  const io::Bytes file = decode::encode_png(ramps());
  double least = 1;
  double most = 0;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const auto out = decoded(decoder, file, {.index = index});
    // The centres of pixels 1 and 7 of 9 are 6/9 of the crop apart.
    const std::size_t middle = (4 * 9 + 4) * 3;
    const double width = (out[middle + 9] - out[middle - 9]) / 2.0 * 9 / 6;
    const double height = (out[middle + 3 * 27 + 1] - out[middle - 3 * 27 + 1]) / 2.0 * 9 / 6;
    const double area = width * height / 12000;
    ASSERT_GT(width / height, 0.70);
    ASSERT_LT(width / height, 1.43);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_NEAR(least, 0.2, 0.03);
  EXPECT_NEAR(most, 0.6, 0.05);
}

TEST(ImageDecoder, ACropLargerThanTheImageIsTheSamplesFault) {
  const auto decoder = plain_decoder({decode::RandomCrop{{32, 32}, 1}});
  const io::Bytes file = decode::encode_png(testing::photo(28, 28, 1));
  EXPECT_EQ(fault_of([&] { decoded(decoder, file); }), ErrorCode::kUnsupported);
}

TEST(ImageDecoder, TransformsMaySayHowTheyResize) {
  using decode::Interpolation;
  const io::Bytes file = decode::encode_png(testing::photo(50, 70, 4));
  const auto done = [&](std::optional<Interpolation> asked, Interpolation own,
                        std::uint64_t index = 0) {
    const ImageDecoder decoder(
        {.transforms = {decode::Resize{{33, 29}, asked}, decode::RandomHorizontalFlip{1.0}},
         .dtype = DType::kUInt8,
         .interpolation = own});
    return decoded(decoder, file, {.index = index});
  };
  const auto bilinear = done({}, Interpolation::kBilinear);
  const auto bicubic = done({}, Interpolation::kBicubic);
  EXPECT_NE(bilinear, bicubic);
  EXPECT_EQ(done(Interpolation::kBicubic, Interpolation::kBilinear), bicubic);
  EXPECT_EQ(done(Interpolation::kBilinear, Interpolation::kBicubic), bilinear);
  EXPECT_EQ(done(Interpolation::kBicubic, Interpolation::kNearest),
            done({}, Interpolation::kNearest))
      << "a mask's numbers are never mixed";
  int cubic = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const auto one = done(Interpolation::kRandom, Interpolation::kBilinear, index);
    ASSERT_TRUE(one == bicubic || one == bilinear);
    cubic += one == bicubic ? 1 : 0;
  }
  EXPECT_NEAR(cubic, 100, 35);
}

TEST(ImageDecoder, AFlatPictureStaysFlatByAnyFilter) {
  for (const int level : {0, 1, 128, 201, 255}) {
    const Image image{40, 60, 3, io::Bytes::take(std::vector<std::byte>(7200, std::byte(level)))};
    const io::Bytes file = decode::encode_png(image);
    for (const auto how : {decode::Interpolation::kBicubic, decode::Interpolation::kLanczos}) {
      for (const decode::ResizeExtent& size : {decode::ResizeExtent{7, 9}, {39, 60}, {200, 170}}) {
        const auto out = decoded(plain_decoder({decode::Resize{size, how}}), file);
        EXPECT_EQ(out, std::vector<std::uint8_t>(out.size(), static_cast<std::uint8_t>(level)));
      }
    }
  }
}

TEST(ImageDecoder, RefusesOptionsThatCannotWork) {
  const auto refuses = [](const decode::ImageDecoderOptions& options) {
    return fault_of([&] { ImageDecoder decoder(options); }) == ErrorCode::kInvalidArgument;
  };
  const decode::Resize size{{8, 8}};
  EXPECT_TRUE(refuses({}));
  EXPECT_TRUE(refuses({.transforms = {size}, .interpolation = decode::Interpolation::kRandom}));
  EXPECT_TRUE(refuses({.transforms = {decode::ResizeShort{256}}}));
  EXPECT_TRUE(refuses({.transforms = {decode::Resize{{0, 8}}}}));
  EXPECT_TRUE(refuses({.transforms = {decode::RandomCrop{{8, 8}, -1}}}));
  EXPECT_TRUE(refuses({.transforms = {size, decode::RandomHorizontalFlip{1.5}}}));
  EXPECT_TRUE(refuses({.transforms = {decode::Normalize::imagenet(), size}}));
  EXPECT_TRUE(refuses({.transforms = {size, decode::Normalize::imagenet()}, .channels = 1}));
  EXPECT_TRUE(refuses({.transforms = {size, decode::Normalize{{0.0F}, {0.0F}}}}));
  EXPECT_TRUE(refuses({.transforms = {size, decode::Normalize{}}, .dtype = DType::kUInt8}));
  EXPECT_TRUE(refuses({.transforms = {size}, .channels = 2}));
  EXPECT_TRUE(refuses({.transforms = {decode::ColorJitter{}, size}}));
  EXPECT_TRUE(refuses({.transforms = {size, decode::ColorJitter{-1.0}}}));
  EXPECT_TRUE(refuses({.transforms = {size}, .channels = 3, .palette_indices = true}));
  EXPECT_FALSE(refuses({.transforms = {decode::ResizeShort{32}, size, decode::ResizeShort{4}}}));
}

}  // namespace
}  // namespace millrace
