// Synthetic "scenes": a picture, the mask of its shapes, and its depth.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <span>
#include <utility>

#include "decode/encode.h"
#include "tools/create/canvas.h"
#include "tools/create/shape_classes.h"
#include "tools/create/synthetic_source.h"

namespace millrace::tools {
namespace {

constexpr Rgb kHaze = {150, 160, 170};

/// A grey picture of the canvas's size.
struct Plane {
  decode::Extent size;
  std::vector<std::uint8_t> values;

  explicit Plane(const decode::Extent& extent)
      : size(extent),
        values(static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width)) {}
  std::uint8_t& at(int x, int y) {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width) +
                  static_cast<std::size_t>(x)];
  }
  wds::Field field(const std::string& suffix) const {
    const decode::Image image{.height = size.height,
                              .width = size.width,
                              .channels = 1,
                              .pixels = io::Bytes::copy_of(std::as_bytes(std::span(values)))};
    return make_field(suffix, decode::encode_png(image));
  }
};

struct Scene {
  Canvas canvas;
  Plane mask;
  Plane depth;
};

/// `nearness` 0: only haze, 1: the colour itself.
Rgb in_haze(const Rgb& colour, float nearness) {
  Rgb mixed;
  for (std::size_t c = 0; c < mixed.size(); ++c) {
    const auto haze = static_cast<float>(kHaze[c]);
    mixed[c] = static_cast<int>(haze + (static_cast<float>(colour[c]) - haze) * nearness);
  }
  return mixed;
}

std::uint8_t depth_value(float nearness) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative
  return static_cast<std::uint8_t>(std::clamp(nearness, 0.0F, 1.0F) * 255.0F + 0.5F);
}

/// A plane that gets nearer towards the lower edge, up to half as near as a shape may be.
void draw_ground(Scene& scene, KeyedRng& rng) {
  const Rgb colour = ground_colour(rng);
  const auto [height, width] = scene.mask.size;
  for (int y = 0; y < height; ++y) {
    const float nearness = 0.5F * static_cast<float>(y) / static_cast<float>(height);
    const Rgb hazy = in_haze(colour, nearness * 2);
    for (int x = 0; x < width; ++x) {
      const int noise = static_cast<int>(rng.below(21)) - 10;
      scene.canvas.set(x, y, {hazy[0] + noise, hazy[1] + noise, hazy[2] + noise});
      scene.depth.at(x, y) = depth_value(nearness);
    }
  }
}

void draw_shape(Scene& scene, float nearness, KeyedRng& rng) {
  const auto width = static_cast<float>(scene.mask.size.width);
  const auto height = static_cast<float>(scene.mask.size.height);
  const auto label = static_cast<int>(rng.below(static_cast<std::uint64_t>(kMaxShapeClasses)));
  Shape shape{.kind = shape_kind(label), .colour = in_haze(shape_colour(label), nearness)};
  shape.radius = std::min(width, height) * (0.05F + 0.2F * nearness);
  shape.x = width * (0.1F + 0.8F * rng.uniform());
  shape.y = height * (0.1F + 0.8F * rng.uniform());
  shape.angle = rng.uniform() * 2 * std::numbers::pi_v<float>;
  scene.canvas.draw(shape, [&](int x, int y) {
    scene.mask.at(x, y) = 1;
    scene.depth.at(x, y) = depth_value(nearness);
  });
}

class ScenesSource final : public SampleSource {
 public:
  explicit ScenesSource(SyntheticOptions options) : options_(std::move(options)) {}

  std::uint64_t size() const override { return options_.count; }
  void identify(Sha256& /*into*/) const override {}  // generated from the options only

  wds::Sample make(std::uint64_t index) const override {
    KeyedRng rng = synthetic_rng(options_, index);
    Scene scene{.canvas = Canvas(options_.size.height, options_.size.width),
                .mask = Plane(options_.size),
                .depth = Plane(options_.size)};
    draw_ground(scene, rng);
    std::vector<float> near(2 + rng.below(4));
    for (float& nearness : near) nearness = 0.5F + 0.5F * rng.uniform();
    std::sort(near.begin(), near.end());  // nearer ones cover those behind them
    for (const float nearness : near) draw_shape(scene, nearness, rng);
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields = {encode_field(scene.canvas.image(), options_.encoding),
                     scene.mask.field("mask.png"), scene.depth.field("depth.png")};
    return sample;
  }

 private:
  SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> make_scenes_source(const SyntheticOptions& options) {
  return std::make_unique<ScenesSource>(options);
}

}  // namespace millrace::tools
