// Several views of one picture from one decode: each has bits of its own.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "decode/decoded_cache.h"
#include "decode/encode.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "decode/views_decoder.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::DType;
using decode::ImageDecoderOptions;
using decode::numbered_view;
using decode::ViewsDecoder;
using testing::fault_of;

using Pixels = std::vector<std::byte>;

std::vector<ImageDecoderOptions> some_views() {
  return {{.transforms = {decode::RandomResizedCrop{.size = 64}, decode::RandomHorizontalFlip{}}},
          {.transforms = {decode::RandomResizedCrop{.size = 24}, decode::ColorJitter{.hue = 0.1}},
           .dtype = DType::kUInt8},
          {.transforms = {decode::Resize{{20, 30}}},
           .dtype = DType::kUInt8,
           .layout = decode::Layout::kCHW},
          {.transforms = {decode::RandomCrop{{50, 60}, 9}}, .dtype = DType::kBFloat16}};
}

/// The views of one decode; `numbers` key them.
std::vector<Pixels> views_of(const std::vector<ImageDecoderOptions>& views, const io::Bytes& file,
                             const std::vector<std::uint64_t>& numbers,
                             const decode::SampleId& id) {
  const ViewsDecoder decoder(views);
  std::vector<Pixels> pixels;
  for (std::size_t i = 0; i < views.size(); ++i) pixels.emplace_back(decoder.output(i).num_bytes());
  std::vector<decode::PictureView> slots;
  for (std::size_t i = 0; i < views.size(); ++i)
    slots.push_back({numbered_view(numbers[i]), pixels[i]});
  decoder.decode(file, id, slots);
  return pixels;
}

std::vector<io::Bytes> view_files() {
  const decode::Image photo = testing::photo(131, 187, 5);
  return {testing::build_jpeg(photo, {}), testing::build_jpeg(photo, {.sampling = {2, 2}}),
          testing::build_jpeg(photo, {.progressive = true}), decode::encode_png(photo),
          decode::encode_pnm(photo)};
}

TEST(Views, AViewHasItsBitsWhateverIsBesideIt) {
  const auto options = some_views();
  const std::vector<std::uint64_t> numbers = {0, 1, 2, 7};
  for (const io::Bytes& file : view_files())
    for (std::uint64_t index = 0; index < 3; ++index) {
      const decode::SampleId id{.seed = 9, .index = index};
      const auto all = views_of(options, file, numbers, id);
      for (std::size_t i = 0; i < options.size(); ++i)
        EXPECT_EQ(views_of({options[i]}, file, {numbers[i]}, id)[0], all[i]) << i;
    }
}

TEST(Views, AreKeyedByTheirNumbers) {
  const io::Bytes file = view_files()[0];
  const std::vector<ImageDecoderOptions> same(10, some_views()[1]);
  const auto views = views_of(same, file, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {.seed = 1});
  EXPECT_EQ(std::set(views.begin(), views.end()).size(), 10U);
  EXPECT_EQ(views_of(same, file, {4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, {.seed = 1})[9], views[4]);
}

TEST(Views, TheFirstIsTheDecodersOwnWhereThatDecodesAtFullSize) {
  const ImageDecoderOptions options{.transforms = {decode::RandomCrop{{50, 60}, 9}},
                                    .dtype = DType::kUInt8};
  const decode::ImageDecoder alone(options);
  const decode::SampleId id{.seed = 3, .index = 8};
  for (const io::Bytes& file : view_files()) {
    Pixels pixels(alone.output().num_bytes());
    alone.decode(file, id, pixels);
    EXPECT_EQ(views_of({options, options}, file, {0, 1}, id)[0], pixels);
  }
}

TEST(Views, OnePictureIsDecodedOnce) {
  auto options = some_views();
  const auto meter = std::make_shared<decode::PictureMeter>();
  for (ImageDecoderOptions& view : options) view.meter = meter;
  const auto plain = views_of(options, view_files()[0], {0, 1, 2, 3}, {.seed = 1});
  EXPECT_EQ(meter->decoded, 1U);
  const auto cache = std::make_shared<decode::DecodedCache>(
      decode::DecodedCacheOptions{.bytes = std::size_t{1} << 24U});
  for (ImageDecoderOptions& view : options) view.cache = cache;
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(views_of(options, view_files()[0], {0, 1, 2, 3}, {.seed = 1}), plain);
  EXPECT_EQ(meter->decoded, 2U);
  EXPECT_EQ(meter->found, 1U);
}

TEST(Views, DamageAnywhereIsAFault) {
  const io::Bytes whole = view_files()[0];
  const io::Bytes cut = io::Bytes::copy_of(whole.span().first(whole.size() / 2));
  EXPECT_THROW(views_of({{.transforms = {decode::CenterCrop{{4, 4}}}}}, cut, {1}, {.seed = 1}),
               Error);
}

TEST(Views, WhatIsDecodedOtherwiseIsRefused) {
  auto options = some_views();
  options[2].channels = 1;
  EXPECT_EQ(fault_of([&] { const ViewsDecoder decoder(options); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault_of([] { const ViewsDecoder none({}); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
