#include "decode/transforms/random_horizontal_flip.h"

#include "decode/sample_id.h"
#include "decode/transform_step.h"

namespace millrace::decode {
namespace {

constexpr Purpose kFlip{5};
constexpr Purpose kTurns = purpose_of("hflip by turns");

class HorizontalFlipStep : public GeometryStep {
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

/// choose() is that of the first epoch.
class AlternatingFlipStep final : public HorizontalFlipStep {
 public:
  using HorizontalFlipStep::HorizontalFlipStep;

  void choose_for(const SampleId& id, Geometry& geometry, KeyedRng& /*rng*/) const override {
    KeyedRng rng({.seed = id.seed ^ id.view, .index = id.sample, .purpose = kTurns});
    choose(geometry, rng);
    if (id.epoch % 2 == 1) geometry.flip();
  }
};

}  // namespace

const ComponentName RandomHorizontalFlip::kName = {"hflip", "RandomHorizontalFlip",
                                                   "Mirrors left and right at random"};

void RandomHorizontalFlip::fields(FieldList& field) {
  field("p", probability, {.min = 0, .max = 1}, "Probability");
  field("alternate", alternate,
        "Drawn once for each sample; in every second epoch the others are mirrored");
}

std::unique_ptr<TransformStep> RandomHorizontalFlip::make() const {
  if (alternate) return std::make_unique<AlternatingFlipStep>(probability);
  return std::make_unique<HorizontalFlipStep>(probability);
}

}  // namespace millrace::decode
