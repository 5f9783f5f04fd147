// Synthetic "segments": streets, with a class per pixel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "decode/encode.h"
#include "tools/create/canvas.h"
#include "tools/create/synthetic_source.h"

namespace millrace::tools {
namespace {

/// CamVid's eleven classes in their usual order.
enum Class : std::int64_t {
  kSky,
  kBuilding,
  kPole,
  kRoad,
  kPavement,
  kTree,
  kSign,
  kFence,
  kCar,
  kPedestrian,
  kBicyclist,
  kNumClasses,
  kVoid = 255
};

struct Look {
  const char* name;
  decode::RgbColour label;  ///< in masks
  Rgb colour;               ///< in pictures
};

constexpr std::array<Look, kNumClasses> kLooks = {{{"Sky", {128, 128, 128}, {150, 190, 235}},
                                                   {"Building", {128, 0, 0}, {150, 110, 90}},
                                                   {"Pole", {192, 192, 128}, {60, 60, 70}},
                                                   {"Road", {128, 64, 128}, {90, 90, 95}},
                                                   {"Pavement", {0, 0, 192}, {165, 160, 150}},
                                                   {"Tree", {128, 128, 0}, {50, 110, 45}},
                                                   {"SignSymbol", {192, 128, 128}, {225, 60, 50}},
                                                   {"Fence", {64, 64, 128}, {120, 85, 50}},
                                                   {"Car", {64, 0, 128}, {40, 70, 170}},
                                                   {"Pedestrian", {64, 64, 0}, {220, 160, 60}},
                                                   {"Bicyclist", {0, 128, 192}, {200, 60, 190}}}};

/// A picture and its mask, drawn together. Lengths are fractions of the height or width.
class Street {
 public:
  Street(const decode::Extent& size, KeyedRng& rng)
      : rng_(rng), canvas_(size.height, size.width), mask_{size.height, size.width, {}} {
    mask_.labels.resize(static_cast<std::size_t>(size.height) *
                        static_cast<std::size_t>(size.width));
    brightness_ = static_cast<int>(rng.below(41)) - 20;
  }

  float between(float low, float high) { return low + (high - low) * rng_.uniform(); }
  int number(int low, int high) {
    return low + static_cast<int>(rng_.below(static_cast<std::uint64_t>(high - low) + 1));
  }

  void box(Class label, float left, float top, float right, float bottom) {
    const int shade = static_cast<int>(rng_.below(25)) - 12;
    for (int y = row(top); y < std::max(row(bottom), row(top) + 1); ++y)
      for (int x = column(left); x < std::max(column(right), column(left) + 1); ++x)
        set(label, x, y, shade);
  }

  /// `radius` is a fraction of the height.
  void disc(Class label, float x, float y, float radius) {
    const int shade = static_cast<int>(rng_.below(25)) - 12;
    const Shape shape{.x = x * static_cast<float>(canvas_.width()),
                      .y = y * static_cast<float>(canvas_.height()),
                      .radius = radius * static_cast<float>(canvas_.height())};
    canvas_.draw(shape, [&](int at_x, int at_y) { set(label, at_x, at_y, shade); });
  }

  /// From the horizon down, widening from the middle.
  void strip(Class label, float horizon, float narrow, float wide) {
    for (int y = row(horizon); y < canvas_.height(); ++y) {
      const float way =
          (static_cast<float>(y) / static_cast<float>(canvas_.height()) - horizon) / (1 - horizon);
      const float half = (narrow + (wide - narrow) * way) / 2;
      for (int x = column(0.5F - half); x < column(0.5F + half); ++x) set(label, x, y, 0);
    }
  }

  wds::Field mask() const {
    std::vector<decode::RgbColour> palette;
    palette.reserve(kLooks.size());
    for (const Look& look : kLooks) palette.push_back(look.label);
    return make_field("mask.png", decode::encode_mask_png(mask_, palette));
  }
  decode::Image image() const { return canvas_.image(); }

 private:
  int row(float share) const { return place(share, canvas_.height()); }
  int column(float share) const { return place(share, canvas_.width()); }
  static int place(float share, int size) {
    return std::clamp(static_cast<int>(share * static_cast<float>(size)), 0, size);
  }

  void set(Class label, int x, int y, int shade) {
    if (x >= canvas_.width() || y >= canvas_.height()) return;
    const Rgb base =
        label == kVoid ? Rgb{110, 110, 110} : kLooks[static_cast<std::size_t>(label)].colour;
    const int light = shade + brightness_ + static_cast<int>(rng_.below(31)) - 15;
    canvas_.set(x, y, {base[0] + light, base[1] + light, base[2] + light});
    mask_.labels[static_cast<std::size_t>(y) * static_cast<std::size_t>(canvas_.width()) +
                 static_cast<std::size_t>(x)] = label;
  }

  KeyedRng& rng_;
  Canvas canvas_;
  decode::ClassImage mask_;
  int brightness_ = 0;
};

void draw_background(Street& street, float horizon) {
  street.box(kSky, 0, 0, 1, horizon);
  for (float left = street.between(-0.2F, 0.0F); left < 1;) {
    const float width = street.between(0.15F, 0.3F);
    if (street.number(0, 3) > 0)
      street.box(kBuilding, left, horizon * street.between(0.1F, 0.7F), left + width, horizon);
    left += width;
  }
  street.box(kPavement, 0, horizon, 1, 1);
  street.strip(kRoad, horizon, street.between(0.1F, 0.25F), street.between(0.9F, 1.5F));
}

void draw_roadside(Street& street, float horizon) {
  for (int trees = street.number(1, 3); trees > 0; --trees)
    street.disc(kTree, street.between(0, 1), horizon * street.between(0.6F, 0.9F),
                street.between(0.08F, 0.16F));
  if (street.number(0, 2) > 0) {
    const float left = street.between(0, 0.7F);
    street.box(kFence, left, horizon - 0.07F, left + street.between(0.2F, 0.4F), horizon + 0.02F);
  }
  for (int poles = street.number(1, 3); poles > 0; --poles) {
    const float x = street.between(0.05F, 0.95F);
    const float top = horizon * street.between(0.2F, 0.6F);
    street.box(kPole, x, top, x + 0.015F, horizon + 0.08F);
    if (street.number(0, 1) > 0) street.box(kSign, x - 0.03F, top, x + 0.045F, top + 0.09F);
  }
}

/// Nearer ones are lower and larger, and cover those behind them.
void draw_traffic(Street& street, float horizon) {
  const int count = street.number(2, 5);
  for (int i = 0; i < count; ++i) {
    const float near = (static_cast<float>(i) + street.between(0, 1)) / static_cast<float>(count);
    const float foot = horizon + 0.06F + (0.95F - horizon) * near * 0.8F;
    const float tall = 0.1F + 0.22F * near;
    const float x = street.between(0.05F, 0.85F);
    switch (street.number(0, 2)) {
      case 0:
        street.box(kCar, x, foot - tall * 0.6F, x + tall * 1.1F, foot);
        break;
      case 1:
        street.box(kPedestrian, x, foot - tall, x + tall * 0.25F, foot);
        street.disc(kPedestrian, x + tall * 0.125F, foot - tall, tall * 0.16F);
        break;
      default:
        street.box(kBicyclist, x, foot - tall * 0.8F, x + tall * 0.2F, foot - tall * 0.2F);
        street.disc(kBicyclist, x - tall * 0.1F, foot - tall * 0.2F, tall * 0.2F);
        street.disc(kBicyclist, x + tall * 0.3F, foot - tall * 0.2F, tall * 0.2F);
    }
  }
}

void draw_void(Street& street) {
  const float left = street.between(0, 0.85F);
  const float top = street.between(0, 0.85F);
  street.box(kVoid, left, top, left + street.between(0.05F, 0.15F),
             top + street.between(0.05F, 0.15F));
}

class SegmentsSource final : public SampleSource {
 public:
  explicit SegmentsSource(SyntheticOptions options) : options_(std::move(options)) {}

  std::uint64_t size() const override { return options_.count; }
  void identify(Sha256& /*into*/) const override {}  // generated from the options only
  std::vector<std::string> classes() const override {
    std::vector<std::string> names;
    names.reserve(kLooks.size());
    for (const Look& look : kLooks) names.emplace_back(look.name);
    return names;
  }

  wds::Sample make(std::uint64_t index) const override {
    KeyedRng rng = synthetic_rng(options_, index);
    Street street(options_.size, rng);
    const float horizon = street.between(0.4F, 0.55F);
    draw_background(street, horizon);
    draw_roadside(street, horizon);
    draw_traffic(street, horizon);
    draw_void(street);
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields = {encode_field(street.image(), options_.encoding), street.mask()};
    return sample;
  }

 private:
  SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> make_segments_source(const SyntheticOptions& options) {
  return std::make_unique<SegmentsSource>(options);
}

}  // namespace millrace::tools
