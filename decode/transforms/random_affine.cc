#include "decode/transforms/random_affine.h"

#include "decode/detail/projections.h"
#include "decode/transform_step.h"
#include "decode/transforms/sampled.h"
#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

class AffineStep final : public GeometryStep {
 public:
  explicit AffineStep(RandomAffine options) : options_(std::move(options)) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    const int width = geometry.width();
    const int height = geometry.height();
    detail::Affine affine = {.angle = random_between(options_.degrees, rng),
                             .centre = {width * 0.5, height * 0.5}};
    if (!options_.translate.empty())
      affine.move = {random_move(width * options_.translate.front(), rng),
                     random_move(height * options_.translate.back(), rng)};
    affine.scale = random_between(options_.scale, rng);
    affine.shear = {random_between(options_.shear_x, rng), random_between(options_.shear_y, rng)};
    geometry.sample({.where = affine_projection(affine), .fill = fill_of(options_.fill)}, width,
                    height, drawn(options_.interpolation, rng));
  }

 private:
  /// Whole pixels.
  static double random_move(double most, KeyedRng& rng) {
    return round_to_int(random_between({-most, most}, rng));
  }

  RandomAffine options_;
};

}  // namespace

const ComponentName RandomAffine::kName = {"affine", "RandomAffine",
                                           "Turns, moves, scales and shears at random"};

void RandomAffine::fields(FieldList& field) {
  field("degrees", degrees, {.min = -360, .max = 360, .unit = "degrees"},
        "Turns from and to, clockwise; one number: to both sides");
  field("translate", translate, {.min = 0, .max = 1},
        "Moves by up to this share of width and height, or one for both");
  field("scale", scale, {.min = 0, .open_min = true}, "Enlarges from and to");
  field.by_name();
  field("shear_x", shear_x, {.min = -89, .max = 89, .unit = "degrees"}, "Shears rows");
  field("shear_y", shear_y, {.min = -89, .max = 89, .unit = "degrees"}, "Shears columns");
  list_sampling(field, interpolation, fill);
}

void RandomAffine::check() const {
  require(translate.size() <= 2, "translate is one share, or of width and of height");
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> RandomAffine::make() const {
  return std::make_unique<AffineStep>(*this);
}

}  // namespace millrace::decode
