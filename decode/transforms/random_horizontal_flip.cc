#include "decode/transforms/random_horizontal_flip.h"

#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

constexpr Purpose kFlip{5};

class HorizontalFlipStep final : public GeometryStep {
 public:
  explicit HorizontalFlipStep(double probability) : probability_(probability) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) < probability_) geometry.flip();
  }
  bool may_be_late() const override { return true; }
  std::optional<Purpose> purpose() const override { return kFlip; }

 private:
  double probability_;
};

}  // namespace

const ComponentName RandomHorizontalFlip::kName = {"hflip", "RandomHorizontalFlip",
                                                   "Mirrors left and right at random"};

void RandomHorizontalFlip::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

std::unique_ptr<TransformStep> RandomHorizontalFlip::make() const {
  return std::make_unique<HorizontalFlipStep>(probability);
}

}  // namespace millrace::decode
