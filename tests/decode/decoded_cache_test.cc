// Pictures from a cache are those without one, to the bit, from memory and from a file.
#include "decode/decoded_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/jpeg_restarts.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/pad.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/random_rotation.h"
#include "decode/transforms/resize.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/png_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

using decode::DecodedCache;
using decode::DecodedCacheOptions;
using decode::DType;
using decode::ImageDecoder;
using decode::ImageDecoderOptions;
using decode::PictureMeter;
using testing::decoded;
using testing::fault_of;
using ::testing::HasSubstr;

constexpr std::size_t kEnough = 64 << 20;

struct Cached {
  explicit Cached(ImageDecoderOptions options, std::shared_ptr<DecodedCache> of)
      : cache(std::move(of)), decoder(with(std::move(options))) {}

  ImageDecoderOptions with(ImageDecoderOptions options) const {
    options.cache = cache;
    options.meter = meter;
    return options;
  }

  std::shared_ptr<DecodedCache> cache;
  std::shared_ptr<PictureMeter> meter = std::make_shared<PictureMeter>();
  ImageDecoder decoder;
};

std::shared_ptr<DecodedCache> cache_of(std::size_t bytes, const std::string& folder = {}) {
  return std::make_shared<DecodedCache>(DecodedCacheOptions{.bytes = bytes, .folder = folder});
}

std::vector<io::Bytes> photos() {
  const decode::Image photo = testing::photo(93, 141, 1);
  return {decode::encode_png(photo),
          decode::encode_png(testing::grey(photo)),
          decode::encode_pnm(photo),
          testing::build_jpeg(photo, {}),
          testing::build_jpeg(photo, {.sampling = {2, 1}, .progressive = true}),
          testing::build_jpeg(photo, {.inks = true}),
          testing::build_jpeg(testing::grey(photo), {}),
          decode::add_restarts(testing::build_jpeg(photo, {}), {.pixels = 32})};
}

std::vector<std::vector<decode::Transform>> geometries() {
  return {{decode::RandomResizedCrop{.size = 40}, decode::RandomHorizontalFlip{}},
          {decode::Resize{{24, 31}}},  // a JPEG at half its size
          {decode::RandomCrop{{50, 60}, 9}},
          {decode::CenterCrop{{64, 64}}, decode::RandomRotation{.degrees = {-30, 30}}},
          {decode::Pad{{5}}, decode::Resize{{70, 70}}, decode::ColorJitter{.brightness = 0.4}}};
}

TEST(DecodedCache, GivesTheBitsOfADecoderWithout) {
  const testing::TempDir folder;
  for (const std::string& where : {std::string(), folder.path().string()}) {
    const auto cache = cache_of(kEnough, where);
    for (const int channels : {1, 3})
      for (const auto& transforms : geometries()) {
        const ImageDecoderOptions options{
            .transforms = transforms, .channels = channels, .dtype = DType::kUInt8};
        const ImageDecoder plain(options);
        const Cached cached(options, cache);
        for (const io::Bytes& file : photos())
          for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
            ASSERT_EQ(decoded(cached.decoder, file, {.seed = 4, .index = epoch}),
                      decoded(plain, file, {.seed = 4, .index = epoch}));
        EXPECT_GE(cached.meter->found, 7U) << "of 7 files that are decoded, some at two scales";
      }
    EXPECT_GT(cache->size(), 14U);
    EXPECT_LE(cache->used_bytes(), kEnough);
  }
}

TEST(DecodedCache, DecodesEachPictureOnce) {
  const Cached cached({.transforms = {decode::RandomCrop{{32, 32}}}, .dtype = DType::kUInt8},
                      cache_of(kEnough));
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
    for (std::uint64_t i = 0; i < 5; ++i)
      decoded(cached.decoder, decode::encode_png(testing::photo(48, 64, i)), {.index = epoch});
  EXPECT_EQ(cached.meter->decoded, 5U);
  EXPECT_EQ(cached.meter->decoded_bytes, 5U * 48 * 64 * 3);
  EXPECT_EQ(cached.meter->found, 15U);
  EXPECT_EQ(cached.cache->size(), 5U);
}

TEST(DecodedCache, WhatNeedsNoDecodingIsNeitherKeptNorCounted) {
  const Cached cached({.transforms = {decode::RandomCrop{{32, 32}}}, .dtype = DType::kUInt8},
                      cache_of(kEnough));
  decoded(cached.decoder, decode::encode_pnm(testing::photo(48, 64, 1)));
  EXPECT_EQ(cached.meter->decoded, 0U);
  EXPECT_EQ(cached.cache->used_bytes(), 0U);
}

TEST(DecodedCache, AFullOneKeepsWhatItHas) {
  constexpr std::size_t kPicture = std::size_t{48} * 64 * 3;
  const testing::TempDir folder;
  for (const std::string& where : {std::string(), folder.path().string()}) {
    const Cached cached({.transforms = {decode::CenterCrop{{32, 32}}}, .dtype = DType::kUInt8},
                        cache_of(2 * (kPicture + DecodedCache::kMostBeside), where));
    const ImageDecoder plain(
        {.transforms = {decode::CenterCrop{{32, 32}}}, .dtype = DType::kUInt8});
    for (int epoch = 0; epoch < 3; ++epoch)
      for (std::uint64_t i = 0; i < 5; ++i) {
        const io::Bytes file = decode::encode_png(testing::photo(48, 64, i));
        ASSERT_EQ(decoded(cached.decoder, file), decoded(plain, file));
      }
    EXPECT_EQ(cached.cache->size(), 2U);
    EXPECT_EQ(cached.meter->found, 4U) << "the first two, in the second and third epoch";
    EXPECT_EQ(cached.meter->decoded, 11U);
    EXPECT_LE(cached.cache->used_bytes(), cached.cache->options().bytes);
  }
}

// Two readings of one file must not be taken for each other.
TEST(DecodedCache, KeepsApartWhatDecodersMakeOfTheSameFile) {
  const auto cache = cache_of(kEnough);
  const testing::BuiltPng palette = testing::build_png({.colour_type = 3, .bit_depth = 4}, 1);
  const auto mask = [](std::int64_t first) {
    return ImageDecoderOptions{.transforms = {decode::CenterCrop{{8, 8}}},
                               .channels = 1,
                               .dtype = DType::kInt64,
                               .interpolation = decode::Interpolation::kNearest,
                               .classes = decode::ClassMask{.ignore = first}};
  };
  const std::vector<ImageDecoderOptions> all = {
      {.transforms = {decode::CenterCrop{{8, 8}}}, .dtype = DType::kUInt8},
      {.transforms = {decode::CenterCrop{{8, 8}}}, .channels = 1, .dtype = DType::kUInt8},
      {.transforms = {decode::CenterCrop{{8, 8}}}, .channels = 4, .dtype = DType::kUInt8},
      {.transforms = {decode::CenterCrop{{8, 8}}},
       .channels = 1,
       .dtype = DType::kUInt8,
       .interpolation = decode::Interpolation::kNearest,
       .palette_indices = true},
      mask(255),
      mask(7)};
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const ImageDecoderOptions& options : all) {
      const ImageDecoder plain(options);
      const Cached cached(options, cache);
      std::vector<std::byte> with(plain.output().num_bytes());
      std::vector<std::byte> without(with.size());
      cached.decoder.decode(palette.file, {}, with);
      plain.decode(palette.file, {}, without);
      ASSERT_EQ(with, without);
      EXPECT_EQ(cached.meter->found, epoch == 0 ? 0U : 1U);
    }
}

TEST(DecodedCache, ADamagedPictureGivesWhatItGivesWithout) {
  const io::Bytes file = testing::build_jpeg(testing::photo(200, 64, 3), {.restart_rows = 1});
  const ImageDecoderOptions options{.transforms = {decode::RandomCrop{{32, 32}}},
                                    .dtype = DType::kUInt8};
  const ImageDecoder plain(options);
  const Cached cached(options, cache_of(kEnough));
  int faults = 0;
  for (std::size_t at = 700; at < file.size() - 2; at += 97) {
    const io::Bytes damaged = testing::flip(file, at, 0x55);
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::vector<std::uint8_t> with;
      std::vector<std::uint8_t> without;
      const auto fault = fault_of([&] { without = decoded(plain, damaged, {.index = i}); });
      ASSERT_EQ(fault_of([&] { with = decoded(cached.decoder, damaged, {.index = i}); }), fault);
      ASSERT_EQ(with, without);
      faults += fault ? 1 : 0;
    }
  }
  EXPECT_GT(faults, 0);
}

TEST(DecodedCache, ManyThreadsFillAndReadIt) {
  const testing::TempDir folder;
  std::vector<io::Bytes> files;
  for (std::uint64_t i = 0; i < 12; ++i)
    files.push_back(decode::encode_png(testing::photo(40, 40, i)));
  const ImageDecoderOptions options{.transforms = {decode::CenterCrop{{40, 40}}},
                                    .dtype = DType::kUInt8};
  const ImageDecoder plain(options);
  for (const std::string& where : {std::string(), folder.path().string()}) {
    const Cached cached(options, cache_of(kEnough, where));
    std::atomic<int> wrong{0};
    {
      std::vector<std::jthread> team;
      for (std::size_t t = 0; t < 4; ++t)
        team.emplace_back([&, t] {
          for (std::size_t i = 0; i < 60; ++i) {
            const io::Bytes& file = files[(i * (t + 1)) % files.size()];
            if (decoded(cached.decoder, file) != decoded(plain, file)) ++wrong;
          }
        });
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(cached.cache->size(), files.size());
  }
}

TEST(DecodedCache, LeavesNothingInItsFolder) {
  const testing::TempDir folder;
  const Cached cached({.transforms = {decode::CenterCrop{{8, 8}}}, .dtype = DType::kUInt8},
                      cache_of(kEnough, folder.path().string()));
  decoded(cached.decoder, decode::encode_png(testing::photo(40, 40, 1)));
  EXPECT_EQ(cached.cache->size(), 1U);
  EXPECT_EQ(cached.cache->memory_bytes(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DecodedCache, RefusesWhatItCannotHave) {
  EXPECT_EQ(fault_of([] { cache_of(0); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault_of([] { cache_of(std::size_t{1} << 60); }), ErrorCode::kExhausted);
  try {
    cache_of(kEnough, "/no/such/folder");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr("/no/such/folder"));
  }
}

}  // namespace
}  // namespace millrace
