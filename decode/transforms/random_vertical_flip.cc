#include "decode/transforms/random_vertical_flip.h"

#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

class VerticalFlipStep final : public GeometryStep {
 public:
  explicit VerticalFlipStep(double probability) : probability_(probability) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) < probability_) geometry.flip_vertically();
  }
  bool may_be_late() const override { return true; }

 private:
  double probability_;
};

}  // namespace

const ComponentName RandomVerticalFlip::kName = {"vflip", "RandomVerticalFlip",
                                                 "Mirrors top and bottom at random"};

void RandomVerticalFlip::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomVerticalFlip::make() const {
  return std::make_unique<VerticalFlipStep>(probability);
}

}  // namespace millrace::decode
