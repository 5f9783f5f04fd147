// Images compared with the results of PIL and torchvision. Skipped if Python lacks them.
#include "tests/decode/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "decode/codec.h"
#include "decode/detail/colour.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/npz.h"
#include "decode/transform_step.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_erasing.h"
#include "decode/transforms/random_grayscale.h"
#include "decode/transforms/random_invert.h"
#include "decode/transforms/random_posterize.h"
#include "decode/transforms/random_solarize.h"
#include "decode/transforms/resize.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/tiff_builder.h"

namespace millrace {
namespace {

using decode::Image;
using testing::build_jpeg;
using testing::Oracle;

TEST_F(Oracle, JpegsDecodeToTheBit) {
  const Image image = testing::photo(97, 131, 1);
  const std::vector<io::Bytes> files = {
      build_jpeg(image, {}),
      build_jpeg(image, {.sampling = {1, 1}}),
      build_jpeg(image, {.sampling = {2, 1}}),
      build_jpeg(image, {.sampling = {1, 2}}),
      build_jpeg(image, {.sampling = {4, 1}}),
      build_jpeg(image, {.progressive = true}),
      build_jpeg(image, {.inks = true}),
      build_jpeg(image, {.sampling = {1, 1}, .inks = true, .inks_as_ycck = true}),
      build_jpeg(testing::grey(image), {.sampling = {1, 1}})};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    add_file(name, files[i]);
    add_case(R"({"op": "decode", "file": ")" + name + "\"}");
  }
  ask();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto ours = testing::pixels_of(decode::decode_image(files[i], {.channels = 3}));
    EXPECT_EQ(testing::max_difference(ours, answer(static_cast<int>(i))), 0) << i;
  }
}

TEST_F(Oracle, WebPsAndTiffsDecodeToTheBit) {
  const Image image = testing::photo(97, 131, 1);
  const std::vector<std::pair<std::string, io::Bytes>> files = {
      {"a.webp", decode::standard_codecs()->encode(image, "webp").data},
      {"b.tif", testing::build_tiff(image, {.compression = 5})},
      {"c.tif", testing::build_tiff(image, {.compression = 8, .tiled = true})},
      {"d.tif", testing::build_tiff(image, {.compression = 7})},
      {"e.tif", testing::build_tiff(testing::grey(image), {.min_is_white = true})}};
  for (const auto& [name, file] : files) {
    add_file(name, file);
    add_case(R"({"op": "decode", "file": ")" + name + "\"}");
  }
  ask();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto ours = testing::pixels_of(decode::decode_image(files[i].second, {.channels = 3}));
    EXPECT_EQ(testing::max_difference(ours, answer(static_cast<int>(i))), 0) << files[i].first;
  }
}

TEST_F(Oracle, ResizesDifferByOneLevelAtMost) {
  const Image image = testing::photo(150, 203, 2);
  const io::Bytes file = decode::encode_png(image);
  add_file("a.png", file);
  const std::vector<std::array<int, 2>> sizes = {{75, 101}, {224, 224}, {31, 200}, {150, 64},
                                                 {64, 203}, {7, 5},     {400, 31}, {1, 1}};
  for (const int channels : {3, 1}) {
    for (const auto& [height, width] : sizes) {
      add_case(R"({"op": "resize", "file": "a.png", "channels": )" + std::to_string(channels) +
               R"(, "height": )" + std::to_string(height) + R"(, "width": )" +
               std::to_string(width) + "}");
    }
  }
  ask();
  int i = 0;
  for (const int channels : {3, 1}) {
    for (const auto& [height, width] : sizes) {
      const auto decoder = testing::plain_decoder({decode::Resize{{height, width}}}, channels);
      EXPECT_LE(testing::max_difference(testing::decoded(decoder, file), answer(i++)), 1)
          << height << " x " << width << " x " << channels;
    }
  }
}

TEST_F(Oracle, TheEvaluationTransformsAreTorchvisions) {
  const std::vector<std::array<int, 2>> shapes = {{100, 151}, {151, 100}, {90, 90}, {64, 333}};
  std::vector<io::Bytes> files;
  for (const auto& [height, width] : shapes) {
    files.push_back(decode::encode_png(testing::photo(height, width, 3)));
    const std::string name = std::to_string(files.size()) + ".png";
    add_file(name, files.back());
    const std::string rest = R"(", "short": 72, "height": 63, "width": 64, "file": ")" + name;
    add_case(R"({"op": "centre)" + rest + "\"}");
    add_case(R"({"op": "tensor)" + rest + "\"}");
  }
  ask();
  const std::vector<decode::Transform> geometry = {decode::ResizeShort{72},
                                                   decode::CenterCrop{{63, 64}}};
  auto transforms = geometry;
  transforms.emplace_back(decode::Normalize::imagenet());
  const decode::ImageDecoder tensors({.transforms = transforms, .layout = decode::Layout::kCHW});
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto ours = testing::decoded(testing::plain_decoder(geometry), files[i]);
    EXPECT_LE(testing::max_difference(ours, answer(static_cast<int>(2 * i))), 1);
    const auto raw = answer(static_cast<int>(2 * i) + 1);
    const auto values = testing::decoded<float>(tensors, files[i]);
    ASSERT_EQ(raw.size(), values.size() * sizeof(float));
    for (std::size_t at = 0; at < values.size(); ++at) {
      float theirs = 0;
      std::memcpy(&theirs, raw.data() + at * sizeof(float), sizeof(float));
      ASSERT_NEAR(values[at], theirs, 1.01 / 255 / 0.224);  // one level
    }
  }
}

TEST_F(Oracle, ColourChangesArePils) {
  const Image image = testing::photo(40, 50, 4);
  add_file("a.png", decode::encode_png(image));
  const std::vector<double> factors = {0.0, 0.4, 0.9, 1.3, 2.0};
  const std::vector<std::string> kinds = {"brightness", "contrast", "saturation"};
  for (const std::string& kind : kinds) {
    for (const double factor : factors) {
      add_case(R"({"op": "jitter", "file": "a.png", "kind": ")" + kind + R"(", "factor": )" +
               std::to_string(factor) + "}");
    }
  }
  ask();
  int i = 0;
  for (const std::string& kind : kinds) {
    for (const double factor : factors) {
      auto pixels = testing::pixels_of(image);
      if (kind == "brightness") decode::detail::change_brightness(pixels, factor);
      if (kind == "contrast") decode::detail::change_contrast(pixels, 3, factor);
      if (kind == "saturation") decode::detail::change_saturation(pixels, 3, factor);
      EXPECT_LE(testing::max_difference(pixels, answer(i++)), 0) << kind << " " << factor;
    }
  }
}

/// The words that `rng` draws next, for torchvision to draw the same.
std::string words_of(KeyedRng rng, int count) {
  std::string words;
  for (int i = 0; i < count; ++i) words += (i == 0 ? "" : ",") + std::to_string(rng());
  return "[" + words + "]";
}

TEST_F(Oracle, ErasingIsTorchvisions) {
  constexpr int kCases = 40;
  const Image image = testing::photo(40, 50, 5);
  add_file("a.png", decode::encode_png(image));
  const auto rng_of = [](int i) {
    return KeyedRng({.seed = 3, .index = static_cast<std::uint64_t>(i)});
  };
  for (int i = 0; i < kCases; ++i)
    add_case(R"({"op": "erase", "file": "a.png", "words": )" + words_of(rng_of(i), 64) + "}");
  ask();
  const auto step =
      decode::RandomErasing{.probability = 0.8, .area = {0.02, 0.9}, .value = {9, 50, 200}}.make();
  int changed = 0;
  for (int i = 0; i < kCases; ++i) {
    auto levels = testing::pixels_of(image);
    decode::Pixels pixels{.levels = levels, .height = 40, .width = 50, .channels = 3};
    KeyedRng rng = rng_of(i);
    dynamic_cast<const decode::PixelStep&>(*step).change(pixels, rng);
    EXPECT_EQ(testing::max_difference(levels, answer(i)), 0) << i;
    changed += levels == testing::pixels_of(image) ? 0 : 1;
  }
  EXPECT_NEAR(changed, 0.8 * kCases, 6);
}

// Of 2,000 rectangles each: the share that is erased, and the quartiles of their area and shape.
TEST_F(Oracle, ErasingIsDistributedAsTorchvisions) {
  constexpr std::size_t kDraws = 2000;
  add_case(R"({"op": "erased boxes", "draws": 2000})");
  ask();
  const auto raw = answer(0);
  std::vector<float> theirs(raw.size() / sizeof(float));
  std::memcpy(theirs.data(), raw.data(), raw.size());
  const auto step = decode::RandomErasing{.value = {255}}.make();
  std::vector<float> areas;
  std::vector<float> shapes;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    std::vector<std::uint8_t> levels(64 * 48, 0);
    decode::Pixels pixels{.levels = levels, .height = 64, .width = 48, .channels = 1};
    KeyedRng rng({.seed = 1, .index = i});
    dynamic_cast<const decode::PixelStep&>(*step).change(pixels, rng);
    const auto area = static_cast<int>(std::ranges::count(levels, 255));
    if (area == 0) continue;
    int height = 0;
    for (std::size_t y = 0; y < 64; ++y)
      height += std::ranges::count(std::span(levels).subspan(y * 48, 48), 255) > 0 ? 1 : 0;
    areas.push_back(static_cast<float>(area) / (64 * 48));
    shapes.push_back(std::log(static_cast<float>(height * height) / static_cast<float>(area)));
  }
  std::ranges::sort(areas);
  std::ranges::sort(shapes);
  const auto at = [](const std::vector<float>& sorted, int quarter) {
    return sorted[sorted.size() * static_cast<std::size_t>(quarter) / 4];
  };
  ASSERT_EQ(theirs.size(), 7U);
  EXPECT_NEAR(static_cast<float>(areas.size()) / kDraws, theirs[0], 0.04F);
  for (int quarter = 1; quarter <= 3; ++quarter) {
    EXPECT_NEAR(at(areas, quarter), theirs[static_cast<std::size_t>(quarter)], 0.02F) << quarter;
    EXPECT_NEAR(at(shapes, quarter), theirs[static_cast<std::size_t>(3 + quarter)], 0.15F)
        << quarter;
  }
}

TEST_F(Oracle, LevelsChangeAsPils) {
  const Image image = testing::photo(40, 50, 6);
  add_file("a.png", decode::encode_png(image));
  const std::vector<std::pair<std::string, decode::Transform>> cases = {
      {"solarize\", \"value\": 100", decode::RandomSolarize{.threshold = 100, .probability = 1}},
      {"solarize\", \"value\": 256", decode::RandomSolarize{.threshold = 256, .probability = 1}},
      {"posterize\", \"value\": 3", decode::RandomPosterize{.bits = 3, .probability = 1}},
      {"posterize\", \"value\": 8", decode::RandomPosterize{.bits = 8, .probability = 1}},
      {"invert\"", decode::RandomInvert{.probability = 1}},
      {"grayscale\"", decode::RandomGrayscale{.probability = 1}}};
  for (const auto& [words, transform] : cases)
    add_case(R"({"op": "levels", "file": "a.png", "kind": ")" + words + "}");
  ask();
  int i = 0;
  for (const auto& [words, transform] : cases) {
    const auto decoder = testing::plain_decoder({decode::CenterCrop{{40, 50}}, transform});
    EXPECT_EQ(
        testing::max_difference(testing::decoded(decoder, decode::encode_pnm(image)), answer(i++)),
        0)
        << words;
  }
}

TEST_F(Oracle, ReadsWhatNumpyWrites) {
  const std::vector<std::string> dtypes = {"i1",  "u1",  "<i2", ">i2", "<u2", "<i4",
                                           ">u4", "<i8", ">i8", "<u8", "<f2", ">f2",
                                           "<f4", ">f4", "<f8", ">f8", "?"};
  int cases = 0;
  for (const std::string& dtype : dtypes) {
    for (const char* fortran : {"false", "true"}) {
      add_case(R"({"op": "write", "file": ")" + std::to_string(cases++) + R"(", "dtype": ")" +
               dtype + R"(", "fortran": )" + fortran + "}");
    }
  }
  ask();
  const decode::ArraySpec spec{decode::DType::kFloat32, {2, 3, 4}};
  for (int i = 0; i < cases; ++i) {
    const auto read = [&](const char* suffix) {
      return io::Bytes::copy_of(testing::read_file(dir_ / (std::to_string(i) + suffix)));
    };
    for (const auto& array :
         {decode::parse_npy(read(".npy")), decode::npz_array(read(".npz"), "second"),
          decode::npz_array(read(".packed.npz"), "second")}) {
      std::vector<std::uint8_t> slot(spec.num_bytes());
      decode::copy_npy(array, spec, std::as_writable_bytes(std::span(slot)));
      EXPECT_EQ(slot, answer(i)) << dtypes[static_cast<std::size_t>(i / 2)];
    }
    const auto all = decode::npz_arrays(read(".packed.npz"));
    EXPECT_EQ(all.size(), 2U);
    EXPECT_EQ(all.at("first").shape, std::vector<std::int64_t>{999});
  }
}

}  // namespace
}  // namespace millrace
