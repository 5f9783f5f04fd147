// Augmentations compared with torchvision's, by the parameters that were drawn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/detail/colour.h"
#include "decode/detail/neighbours.h"
#include "decode/encode.h"
#include "decode/transforms.h"
#include "io/component/component_text.h"
#include "tests/decode/oracle.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace augment_oracle_test {

using decode::Image;
using decode::Pixels;
using testing::Oracle;

/// What torchvision is asked, and what ours does.
struct Change {
  std::string name;
  std::string arguments;
  int within = 0;  ///< levels
  std::function<void(Pixels&)> ours;
};

std::vector<Change> changes() {
  using namespace decode::detail;
  std::vector<Change> all = {
      {"autocontrast", "", 0, [](Pixels& p) { stretch_contrast(p.levels, p.channels); }},
      {"equalize", "", 0, [](Pixels& p) { equalize(p.levels, p.channels); }}};
  for (const double turn : {-0.5, -0.31, -0.01, 0.0, 0.07, 0.2, 0.5})
    all.push_back({"adjust_hue", std::to_string(turn), 0,
                   [turn](Pixels& p) { change_hue(p.levels, p.channels, turn); }});
  for (const double factor : {0.0, 0.4, 1.0, 1.9, 3.0})
    all.push_back({"adjust_sharpness", std::to_string(factor), 0,
                   [factor](Pixels& p) { change_sharpness(p, factor); }});
  for (const auto& [size, sigma] : {std::pair{3, 0.1}, {3, 2.0}, {9, 0.7}, {23, 1.3}, {23, 5.0}})
    all.push_back({"gaussian_blur",
                   "[" + std::to_string(size) + "," + std::to_string(size) + "],[" +
                       std::to_string(sigma) + "," + std::to_string(sigma) + "]",
                   1, [size = size, sigma = sigma](Pixels& p) { blur(p, size, sigma); }});
  return all;
}

TEST_F(Oracle, ColoursAndNeighboursChangeAsTorchvisions) {
  const std::vector<Image> images = {testing::photo(40, 50, 4), testing::photo(31, 24, 9),
                                     testing::grey(testing::photo(33, 27, 2))};
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::string file = std::to_string(i) + ".png";
    add_file(file, decode::encode_png(images[i]));
    for (const Change& change : changes())
      add_case(R"({"op": "function", "file": ")" + file + R"(", "channels": )" +
               std::to_string(images[i].channels) + R"(, "name": ")" + change.name +
               R"(", "arguments": [)" + change.arguments + "]}");
  }
  ask();
  int at = 0;
  for (const Image& image : images) {
    for (const Change& change : changes()) {
      auto levels = testing::pixels_of(image);
      Pixels pixels{.levels = levels,
                    .height = image.height,
                    .width = image.width,
                    .channels = image.channels};
      change.ours(pixels);
      EXPECT_LE(testing::max_difference(levels, answer(at++)), change.within)
          << change.name << "(" << change.arguments << "), " << image.channels << " channels";
    }
  }
}

/// Levels of 40 to 215, which no filter takes below 0 or above 255.
Image soft(const Image& image) {
  auto levels = testing::pixels_of(image);
  for (std::uint8_t& level : levels) level = static_cast<std::uint8_t>(40 + level * 175 / 255);
  return {image.height, image.width, image.channels,
          io::Bytes::copy_of(std::as_bytes(std::span(levels)))};
}

struct Resized {
  std::string how;
  std::string file;
  bool tensor = false;
};

TEST_F(Oracle, InterpolationsAreTorchvisionsAndPils) {
  const Image hard = testing::photo(150, 203, 2);
  add_file("hard.png", decode::encode_png(hard));
  add_file("soft.png", decode::encode_png(soft(hard)));
  const std::vector<Resized> cases = {{"bicubic", "hard.png", true},
                                      {"bicubic", "soft.png"},
                                      {"lanczos", "soft.png"},
                                      {"nearest", "hard.png"},
                                      {"bilinear", "hard.png", true}};
  const std::vector<std::array<int, 2>> sizes = {{75, 101}, {224, 224}, {31, 200}, {150, 64},
                                                 {64, 203}, {7, 5},     {400, 31}, {1, 1}};
  for (const Resized& one : cases)
    for (const auto& [height, width] : sizes)
      add_case(R"({"op": "resize", "file": ")" + one.file + R"(", "height": )" +
               std::to_string(height) + R"(, "width": )" + std::to_string(width) +
               R"(, "interpolation": ")" + one.how + R"(", "tensor": )" +
               (one.tensor ? "true" : "false") + "}");
  ask();
  int at = 0;
  for (const Resized& one : cases) {
    const auto file = io::Bytes::copy_of(testing::read_file(dir_ / one.file));
    for (const auto& [height, width] : sizes) {
      const std::string call = "resize(" + std::to_string(height) + "x" + std::to_string(width) +
                               ", interpolation=" + one.how + ")";
      const auto decoder = testing::plain_decoder(parse(call, decode::standard_transforms()));
      EXPECT_LE(testing::max_difference(testing::decoded(decoder, file), answer(at++)),
                one.how == "nearest" ? 0 : 1)
          << call << " of " << one.file;
    }
  }
}

/// What torchvision is asked, and the transforms that do the same.
struct Turn {
  std::string name;
  std::string arguments;
  std::string options;
  std::string calls;
};

std::string number(double value) { return fmt::format("{}", value); }

/// The corners that a RandomPerspective draws, as torchvision takes them.
std::string corners(const decode::SampleId& id, int height, int width, double distortion) {
  KeyedRng rng = id.rng(purpose_of("perspective"));
  rng.uniform();  // whether
  const auto inwards = [&](int size) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(distortion * (size / 2)) + 1));
  };
  std::string to;
  for (int corner = 0; corner < 4; ++corner) {
    const int x = inwards(width);
    const int y = inwards(height);
    to += fmt::format("{}[{},{}]", corner == 0 ? "" : ",",
                      corner == 1 || corner == 2 ? width - 1 - x : x,
                      corner >= 2 ? height - 1 - y : y);
  }
  return fmt::format("[[0,0],[{0},0],[{0},{1}],[0,{1}]],[{2}]", width - 1, height - 1, to);
}

/// The pixels that a RandomAffine moves by.
std::string moves(const decode::SampleId& id, double x, double y) {
  KeyedRng rng = id.rng(purpose_of("affine"));
  rng.uniform();  // the angle
  const double right = -x + 2 * x * static_cast<double>(rng.uniform());
  const double down = -y + 2 * y * static_cast<double>(rng.uniform());
  return fmt::format("[{},{}]", std::nearbyint(right), std::nearbyint(down));
}

constexpr decode::SampleId kDrawn = {.seed = 8, .index = 5};

std::vector<Turn> turns(int height, int width) {
  std::vector<Turn> all;
  for (const std::string how : {"bilinear", "bicubic", "nearest"}) {
    const std::string asked = R"("interpolation": ")" + how + '"';
    for (const double angle : {-170.0, -33.3, 0.0, 12.5, 90.0, 180.0, 271.0})
      all.push_back(
          {"rotate", number(angle), asked + R"(, "fill": [9, 50, 200])",
           fmt::format("rotate({0}..{0}, interpolation={1}, fill=[9, 50, 200])", angle, how)});
    for (const auto& [angle, scale, x, y] :
         {std::array{20.0, 1.0, 0.0, 0.0}, {0.0, 0.6, 25.0, 0.0}, {-50.0, 1.7, -12.0, 31.0}})
      all.push_back({"affine",
                     fmt::format("{},{},{},[{},{}]", angle,
                                 moves(kDrawn, width * 0.2, height * 0.3), scale, x, y),
                     asked + R"(, "fill": 7)",
                     fmt::format("affine({0}..{0}, [0.2, 0.3], {1}..{1}, shear_x={2}..{2}, "
                                 "shear_y={3}..{3}, interpolation={4}, fill=[7])",
                                 angle, scale, x, y, how)});
    for (const double distortion : {0.2, 0.7})
      all.push_back({"perspective", corners(kDrawn, height, width, distortion), asked,
                     fmt::format("perspective({}, 1, interpolation={})", distortion, how)});
  }
  for (const std::string mode : {"constant", "edge", "reflect", "symmetric"})
    for (const std::string sides : {"7", "[3, 5]", "[1, 2, 13, 4]"})
      all.push_back({"pad", sides + ", 0, \"" + mode + '"', "",
                     fmt::format("pad({}, padding_mode={})", sides, mode)});
  all.push_back({"pad", "6, [9, 50, 200]", "", "pad(6, [9, 50, 200])"});
  return all;
}

/// The share of levels that differ by more than 2.
double share_of_others(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.size() != b.size()) return 1;
  double others = 0;
  for (std::size_t i = 0; i < a.size(); ++i) others += std::abs(a[i] - b[i]) > 2 ? 1 : 0;
  return others / static_cast<double>(a.size());
}

TEST_F(Oracle, PicturesAreTurnedAndPaddedAsTorchvisions) {
  const Image image = testing::photo(61, 83, 7);
  const io::Bytes file = decode::encode_png(image);
  add_file("a.png", file);
  const std::vector<Turn> all = turns(image.height, image.width);
  for (const Turn& turn : all)
    add_case(R"({"op": "function", "file": "a.png", "name": ")" + turn.name +
             R"(", "arguments": [)" + turn.arguments + R"(], "options": {)" + turn.options + "}}");
  ask();
  int at = 0;
  for (const Turn& turn : all) {
    const auto transforms = parse("ccrop(61x83), " + turn.calls, decode::standard_transforms());
    const auto ours = testing::decoded(testing::plain_decoder(transforms), file, kDrawn);
    const auto theirs = answer(at++);
    // Their nearest pixels are found in 16 bits: where two are equally near, either may be taken.
    const bool nearest = turn.options.find("nearest") != std::string::npos;
    EXPECT_LE(share_of_others(ours, theirs), nearest ? 0.01 : 0.0)
        << turn.name << "(" << turn.arguments << "): " << turn.calls << ", by "
        << testing::max_difference(ours, theirs);
  }
}

}  // namespace augment_oracle_test
}  // namespace millrace
