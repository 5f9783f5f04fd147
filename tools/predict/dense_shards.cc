#include "tools/predict/dense_shards.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "decode/encode.h"

namespace millrace::tools {
namespace {

template <typename Pixel>
io::Bytes encode(std::span<const float> values, int side, const Pixel& pixel) {
  std::vector<std::uint8_t> pixels(values.size());
  std::ranges::transform(values, pixels.begin(), pixel);
  return decode::encode_png({.height = side,
                             .width = side,
                             .channels = 1,
                             .pixels = io::Bytes::copy_of(std::as_bytes(std::span(pixels)))});
}

}  // namespace

void DenseShards::write(const trainer::Prediction& one) {
  const auto set = static_cast<std::uint8_t>(options_.mask_value);
  const auto mask = [&](float logit) { return logit > 0.0F ? set : std::uint8_t{0}; };
  const auto depth = [](float value) {
    return static_cast<std::uint8_t>(std::lround(255.0F * std::clamp(value, 0.0F, 1.0F)));
  };
  writer_.write({.key = std::string(one.key),
                 .fields = {{"mask.png", encode(one.outputs.at(0), options_.side, mask)},
                            {"depth.png", encode(one.outputs.at(1), options_.side, depth)}}});
}

}  // namespace millrace::tools
