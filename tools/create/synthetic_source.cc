#include "tools/create/synthetic_source.h"

#include <fmt/format.h>

#include <array>
#include <numbers>

#include "io/base/error.h"
#include "tools/create/canvas.h"

namespace millrace::tools {
namespace {

struct NamedColour {
  std::string_view name;
  Rgb rgb;
};

constexpr std::array<NamedColour, 8> kColours = {{{"red", {220, 50, 47}},
                                                  {"blue", {38, 110, 230}},
                                                  {"green", {60, 170, 60}},
                                                  {"yellow", {230, 200, 40}},
                                                  {"magenta", {211, 54, 180}},
                                                  {"cyan", {42, 190, 190}},
                                                  {"orange", {235, 130, 30}},
                                                  {"white", {240, 240, 240}}}};

KeyedRng rng_of(const SyntheticOptions& options, std::uint64_t index) {
  return KeyedRng({.seed = options.seed, .index = index, .purpose = Purpose::kSynthetic});
}

Rgb vary(const Rgb& colour, KeyedRng& rng) {
  const auto shift = static_cast<int>(rng.below(41)) - 20;
  return {colour[0] + shift, colour[1] + shift, colour[2] + shift};
}

/// A shape somewhere in the middle, a quarter to two fifths of the picture in radius.
Shape place(ShapeKind kind, const Rgb& colour, int size, KeyedRng& rng) {
  const auto side = static_cast<float>(size);
  Shape shape{.kind = kind, .colour = vary(colour, rng)};
  shape.radius = side * (0.25F + 0.15F * rng.uniform());
  shape.x = side * (0.4F + 0.2F * rng.uniform());
  shape.y = side * (0.4F + 0.2F * rng.uniform());
  shape.angle = (rng.uniform() - 0.5F) * 0.25F * std::numbers::pi_v<float>;
  return shape;
}

Rgb ground(KeyedRng& rng) {
  const auto level = [&] { return 60 + static_cast<int>(rng.below(61)); };
  return {level(), level(), level()};
}

class ClassesSource final : public SampleSource {
 public:
  explicit ClassesSource(SyntheticOptions options) : options_(std::move(options)) {}

  std::uint64_t size() const override { return options_.count; }

  std::vector<std::string> classes() const override {
    std::vector<std::string> names;
    for (int label = 0; label < options_.classes; ++label)
      names.push_back(fmt::format("{} {}", colour(label).name, shape_kind_name(kind(label))));
    return names;
  }

  wds::Sample make(std::uint64_t index) const override {
    KeyedRng rng = rng_of(options_, index);
    const auto label = static_cast<int>(rng.below(static_cast<std::uint64_t>(options_.classes)));
    Canvas canvas(options_.size, options_.size);
    canvas.fill_noise(rng, ground(rng), 25);
    canvas.draw(place(kind(label), colour(label).rgb, options_.size, rng));
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields = {make_field("cls", io::Bytes::copy_of(std::to_string(label))),
                     encode_field(canvas.image(), options_.encoding)};
    return sample;
  }

 private:
  static ShapeKind kind(int label) { return static_cast<ShapeKind>(label % kNumShapeKinds); }
  static const NamedColour& colour(int label) {
    return kColours[static_cast<std::size_t>(label / kNumShapeKinds)];
  }

  SyntheticOptions options_;
};

constexpr int kMaxClasses = kNumShapeKinds * static_cast<int>(kColours.size());

}  // namespace

std::vector<std::string> synthetic_kinds() { return {"classes"}; }

std::unique_ptr<SampleSource> make_synthetic_source(const SyntheticOptions& options) {
  if (options.kind == "classes") {
    if (options.classes < 1 || options.classes > kMaxClasses)
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("there are 1 to {} synthetic classes, not {}", kMaxClasses, options.classes));
    return std::make_unique<ClassesSource>(options);
  }
  throw Error(ErrorCode::kInvalidArgument, "no synthetic data called " + options.kind);
}

}  // namespace millrace::tools
