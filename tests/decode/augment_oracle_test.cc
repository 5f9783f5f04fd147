// Augmentations compared with torchvision's, by the parameters that were drawn.
#include <gtest/gtest.h>

#include <functional>
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

}  // namespace augment_oracle_test
}  // namespace millrace
