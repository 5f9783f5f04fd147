#include "decode/transforms/random_perspective.h"

#include "decode/detail/projections.h"
#include "decode/transform_step.h"
#include "decode/transforms/sampled.h"
#include "decode/transforms/window.h"

namespace millrace::decode {
namespace {

class PerspectiveStep final : public GeometryStep {
 public:
  explicit PerspectiveStep(RandomPerspective options) : options_(std::move(options)) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) >= options_.probability) return;
    const int width = geometry.width();
    const int height = geometry.height();
    const double right = width - 1;
    const double bottom = height - 1;
    const auto x = [&] { return inwards(width, rng); };
    const auto y = [&] { return inwards(height, rng); };
    const std::array<detail::Point, 4> to = {
        {{x(), y()}, {right - x(), y()}, {right - x(), bottom - y()}, {x(), bottom - y()}}};
    const std::array<detail::Point, 4> from = {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
    const auto how = drawn(options_.interpolation, rng);
    // Of a side of two pixels or less there is nothing to solve.
    if (width < 3 || height < 3) return;
    geometry.sample({.where = detail::perspective(from, to), .fill = fill_of(options_.fill)}, width,
                    height, how);
  }

 private:
  /// Whole pixels, up to the distortion's share of half a side.
  double inwards(int size, KeyedRng& rng) const {
    const int most = static_cast<int>(options_.distortion * (size / 2));
    return static_cast<double>(rng.below(static_cast<std::uint64_t>(most) + 1));
  }

  RandomPerspective options_;
};

}  // namespace

const ComponentName RandomPerspective::kName = {"perspective", "RandomPerspective",
                                                "Seen at an angle, at random"};

void RandomPerspective::fields(FieldList& field) {
  field("distortion_scale", distortion, {.min = 0, .max = 1},
        "Corners move inwards by up to this share of half a side");
  field("p", probability, {.min = 0, .max = 1}, "Probability");
  field.by_name();
  list_sampling(field, interpolation, fill);
}

void RandomPerspective::check() const {
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> RandomPerspective::make() const {
  return std::make_unique<PerspectiveStep>(*this);
}

}  // namespace millrace::decode
