// Images compared with the results of PIL and torchvision. Skipped if Python lacks them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "decode/codec.h"
#include "decode/detail/colour.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/npz.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/tiff_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

using decode::Image;
using testing::build_jpeg;

std::string oracle_python() {
  const char* given = std::getenv("MILLRACE_ORACLE_PYTHON");
  return given != nullptr ? given : "build/oracle/bin/python";
}

bool runs(const std::string& arguments) {
  const std::string command = oracle_python() + " " + arguments + " 2>/dev/null";
  return std::system(command.c_str()) == 0;  // NOLINT: the test's own words
}

class Oracle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runs("-c 'import PIL, numpy, torchvision'")) {
      GTEST_SKIP() << oracle_python() << " does not run, or has no PIL, numpy and torchvision";
    }
  }

  void add_file(const std::string& name, const io::Bytes& file) {
    testing::write_file(dir_ / name, file.text());
  }

  void add_case(const std::string& json) { cases_ += (cases_.empty() ? "[" : ",") + json; }

  void ask() {
    testing::write_file(dir_ / "cases.json", cases_ + "]");
    ASSERT_TRUE(runs("tests/decode/oracle.py " + dir_.path().string()));
  }

  std::vector<std::uint8_t> answer(int i) {
    const std::string raw = testing::read_file(dir_ / (std::to_string(i) + ".raw"));
    return {raw.begin(), raw.end()};
  }

  testing::TempDir dir_;
  std::string cases_;
};

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
      const auto decoder = testing::plain_decoder({decode::Resize{height, width}}, channels);
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
                                                   decode::CenterCrop{63, 64}};
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
