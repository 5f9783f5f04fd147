#include "decode/transforms/rand_augment.h"

#include <algorithm>

#include "decode/detail/policy.h"
#include "decode/transforms/sampled.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

using detail::Drawn;

constexpr double kTimmStrengths = 10;

Drawn drawn_of(std::span<const detail::Strengths> space, double strength, const Pixels& pixels,
               Interpolation interpolation, KeyedRng& rng) {
  const detail::Strengths& chosen = space[rng.below(space.size())];
  const double magnitude = random_magnitude(chosen, strength, pixels, rng);
  return {chosen.operation, magnitude, *drawn(interpolation, rng)};
}

class RandAugmentStep final : public detail::PolicyStep {
 public:
  explicit RandAugmentStep(const RandAugment& options)
      : PolicyStep(fill_of(options.fill)),
        options_(options),
        is_timm_(options.space == AugmentSpace::kTimm) {}

  std::vector<Drawn> draw(const Pixels& pixels, KeyedRng& rng) const override {
    const auto space =
        is_timm_ ? detail::timm_space(options_.increasing) : detail::rand_augment_space();
    const double probability = options_.probability.value_or(is_timm_ ? 0.5 : 1);
    std::vector<Drawn> all;
    for (int i = 0; i < options_.num_ops; ++i) {
      const bool done = static_cast<double>(rng.uniform()) < probability;
      const Drawn one = drawn_of(space, strength(rng), pixels, options_.interpolation, rng);
      if (done) all.push_back(one);
    }
    return all;
  }

 private:
  double strength(KeyedRng& rng) const {
    const double most = is_timm_ ? kTimmStrengths : options_.num_magnitude_bins - 1;
    double magnitude = options_.magnitude;
    if (options_.std > 0) magnitude += options_.std * static_cast<double>(rng.normal());
    return std::clamp(magnitude, 0.0, most) / most;
  }

  RandAugment options_;
  bool is_timm_;
};

class TrivialAugmentStep final : public detail::PolicyStep {
 public:
  explicit TrivialAugmentStep(const TrivialAugmentWide& options)
      : PolicyStep(fill_of(options.fill)), options_(options) {}

  std::vector<Drawn> draw(const Pixels& pixels, KeyedRng& rng) const override {
    const auto bins = static_cast<std::uint64_t>(options_.num_magnitude_bins);
    const double strength = static_cast<double>(rng.below(bins)) / static_cast<double>(bins - 1);
    return {
        drawn_of(detail::trivial_augment_space(), strength, pixels, options_.interpolation, rng)};
  }

 private:
  TrivialAugmentWide options_;
};

}  // namespace

const ValueType& value_type(const AugmentSpace&) {
  static const EnumType<AugmentSpace> type(
      {{"torchvision", AugmentSpace::kTorchvision}, {"timm", AugmentSpace::kTimm}});
  return type;
}

const ComponentName RandAugment::kName = {"randaugment", "RandAugment",
                                          "Random operations of one strength"};

void RandAugment::fields(FieldList& field) {
  field("num_ops", num_ops, {.min = 0, .max = 64}, "How many, one after another");
  field("magnitude", magnitude, {.min = 0},
        "Their strength: below num_magnitude_bins; timm: to 10");
  field.by_name();
  field("num_magnitude_bins", num_magnitude_bins, {.min = 2, .max = 1000},
        "Strengths that torchvision's operations have");
  field("std", std, {.min = 0}, "Deviation of the strength, drawn for each operation: timm's mstd");
  field("space", space, "Whose operations, and their meaning of strength");
  field("increasing", increasing, "More strength always changes more: timm's inc1");
  field("p", probability, {.min = 0, .max = 1},
        "Probability of each operation; none: 1, of timm's space 0.5");
  list_policy(field, interpolation, fill);
}

void RandAugment::check() const {
  const bool is_timm = space == AugmentSpace::kTimm;
  require(is_timm || magnitude < num_magnitude_bins, "magnitude must be below num_magnitude_bins");
  require(!is_timm || magnitude <= kTimmStrengths, "magnitude must be 0 to 10 in timm's space");
  require(is_timm || !increasing, "increasing is for space=timm: torchvision's strengths are");
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> RandAugment::make() const {
  return std::make_unique<RandAugmentStep>(*this);
}

const ComponentName TrivialAugmentWide::kName = {"trivialaugment", "TrivialAugmentWide",
                                                 "One random operation of random strength"};

void TrivialAugmentWide::fields(FieldList& field) {
  field("num_magnitude_bins", num_magnitude_bins, {.min = 2, .max = 1000},
        "Strengths to draw from");
  field.by_name();
  list_policy(field, interpolation, fill);
}

void TrivialAugmentWide::check() const {
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> TrivialAugmentWide::make() const {
  return std::make_unique<TrivialAugmentStep>(*this);
}

}  // namespace millrace::decode
