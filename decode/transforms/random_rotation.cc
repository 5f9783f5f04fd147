#include "decode/transforms/random_rotation.h"

#include "decode/detail/projections.h"
#include "decode/transform_step.h"
#include "decode/transforms/sampled.h"
#include "decode/transforms/window.h"

namespace millrace::decode {
namespace {

class RotationStep final : public GeometryStep {
 public:
  explicit RotationStep(RandomRotation options) : options_(std::move(options)) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    const double angle = random_between(options_.degrees, rng);
    geometry.sample({.where = detail::rotation(angle, geometry.width(), geometry.height()),
                     .fill = fill_of(options_.fill)},
                    geometry.width(), geometry.height(), drawn(options_.interpolation, rng));
  }

 private:
  RandomRotation options_;
};

}  // namespace

const ComponentName RandomRotation::kName = {"rotate", "RandomRotation",
                                             "Turns by a random angle, about the middle"};

void RandomRotation::fields(FieldList& field) {
  field("degrees", degrees, {.min = -360, .max = 360, .unit = "degrees"},
        "From and to, anticlockwise; one number: to both sides");
  field.by_name();
  list_sampling(field, interpolation, fill);
}

void RandomRotation::check() const {
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> RandomRotation::make() const {
  return std::make_unique<RotationStep>(*this);
}

}  // namespace millrace::decode
