// Synthetic "classes": one shape, one class.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <utility>

#include "tools/create/canvas.h"
#include "tools/create/shape_classes.h"
#include "tools/create/synthetic_source.h"

namespace millrace::tools {
namespace {

/// A shape near the middle, with a radius of a quarter to two fifths of the picture.
Shape place(ShapeKind kind, const Rgb& colour, const decode::Extent& size, KeyedRng& rng) {
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  const float side = std::min(width, height);
  Shape shape{.kind = kind, .colour = vary(colour, rng)};
  shape.radius = side * (0.25F + 0.15F * rng.uniform());
  shape.x = width * (0.4F + 0.2F * rng.uniform());
  shape.y = height * (0.4F + 0.2F * rng.uniform());
  shape.angle = (rng.uniform() - 0.5F) * 0.25F * std::numbers::pi_v<float>;
  return shape;
}

class ClassesSource final : public SampleSource {
 public:
  explicit ClassesSource(SyntheticOptions options) : options_(std::move(options)) {}

  std::uint64_t size() const override { return options_.count; }
  std::vector<std::string> classes() const override { return shape_class_names(options_.classes); }
  void identify(Sha256& /*into*/) const override {}  // generated from the options only

  wds::Sample make(std::uint64_t index) const override {
    KeyedRng rng = synthetic_rng(options_, index);
    const auto label = static_cast<int>(rng.below(static_cast<std::uint64_t>(options_.classes)));
    Canvas canvas(options_.size.height, options_.size.width);
    canvas.fill_noise(rng, ground_colour(rng), 25);
    canvas.draw(place(shape_kind(label), shape_colour(label), options_.size, rng));
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields = {make_field("cls", io::Bytes::copy_of(std::to_string(label))),
                     encode_field(canvas.image(), options_.encoding)};
    return sample;
  }

 private:
  SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> make_classes_source(const SyntheticOptions& options) {
  return std::make_unique<ClassesSource>(options);
}

}  // namespace millrace::tools
