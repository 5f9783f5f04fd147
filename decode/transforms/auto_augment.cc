#include "decode/transforms/auto_augment.h"

#include <algorithm>
#include <array>

#include "decode/detail/policy.h"
#include "decode/transforms/sampled.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

using detail::Drawn;
using enum detail::Operation;

constexpr double kHighestStrength = 9;  // of ten

struct Chance {
  detail::Operation operation = kIdentity;
  double probability = 0;
  int strength = 0;
};
struct Pair {
  Chance first;
  Chance second;
};
using Policy = std::array<Pair, 25>;

// From the paper's appendix.

constexpr Policy kImageNet = {
    {{{kPosterize, 0.4, 8}, {kRotate, 0.6, 9}}, {{kSolarize, 0.6, 5}, {kAutoContrast, 0.6}},
     {{kEqualize, 0.8}, {kEqualize, 0.6}},      {{kPosterize, 0.6, 7}, {kPosterize, 0.6, 6}},
     {{kEqualize, 0.4}, {kSolarize, 0.2, 4}},   {{kEqualize, 0.4}, {kRotate, 0.8, 8}},
     {{kSolarize, 0.6, 3}, {kEqualize, 0.6}},   {{kPosterize, 0.8, 5}, {kEqualize, 1}},
     {{kRotate, 0.2, 3}, {kSolarize, 0.6, 8}},  {{kEqualize, 0.6}, {kPosterize, 0.4, 6}},
     {{kRotate, 0.8, 8}, {kColor, 0.4, 0}},     {{kRotate, 0.4, 9}, {kEqualize, 0.6}},
     {{kEqualize, 0}, {kEqualize, 0.8}},        {{kInvert, 0.6}, {kEqualize, 1}},
     {{kColor, 0.6, 4}, {kContrast, 1, 8}},     {{kRotate, 0.8, 8}, {kColor, 1, 2}},
     {{kColor, 0.8, 8}, {kSolarize, 0.8, 7}},   {{kSharpness, 0.4, 7}, {kInvert, 0.6}},
     {{kShearX, 0.6, 5}, {kEqualize, 1}},       {{kColor, 0.4, 0}, {kEqualize, 0.6}},
     {{kEqualize, 0.4}, {kSolarize, 0.2, 4}},   {{kSolarize, 0.6, 5}, {kAutoContrast, 0.6}},
     {{kInvert, 0.6}, {kEqualize, 1}},          {{kColor, 0.6, 4}, {kContrast, 1, 8}},
     {{kEqualize, 0.8}, {kEqualize, 0.6}}}};

constexpr Policy kCifar10 = {
    {{{kInvert, 0.1}, {kContrast, 0.2, 6}},         {{kRotate, 0.7, 2}, {kTranslateX, 0.3, 9}},
     {{kSharpness, 0.8, 1}, {kSharpness, 0.9, 3}},  {{kShearY, 0.5, 8}, {kTranslateY, 0.7, 9}},
     {{kAutoContrast, 0.5}, {kEqualize, 0.9}},      {{kShearY, 0.2, 7}, {kPosterize, 0.3, 7}},
     {{kColor, 0.4, 3}, {kBrightness, 0.6, 7}},     {{kSharpness, 0.3, 9}, {kBrightness, 0.7, 9}},
     {{kEqualize, 0.6}, {kEqualize, 0.5}},          {{kContrast, 0.6, 7}, {kSharpness, 0.6, 5}},
     {{kColor, 0.7, 7}, {kTranslateX, 0.5, 8}},     {{kEqualize, 0.3}, {kAutoContrast, 0.4}},
     {{kTranslateY, 0.4, 3}, {kSharpness, 0.2, 6}}, {{kBrightness, 0.9, 6}, {kColor, 0.2, 8}},
     {{kSolarize, 0.5, 2}, {kInvert, 0}},           {{kEqualize, 0.2}, {kAutoContrast, 0.6}},
     {{kEqualize, 0.2}, {kEqualize, 0.6}},          {{kColor, 0.9, 9}, {kEqualize, 0.6}},
     {{kAutoContrast, 0.8}, {kSolarize, 0.2, 8}},   {{kBrightness, 0.1, 3}, {kColor, 0.7, 0}},
     {{kSolarize, 0.4, 5}, {kAutoContrast, 0.9}},   {{kTranslateY, 0.9, 9}, {kTranslateY, 0.7, 9}},
     {{kAutoContrast, 0.9}, {kSolarize, 0.8, 3}},   {{kEqualize, 0.8}, {kInvert, 0.1}},
     {{kTranslateY, 0.7, 9}, {kAutoContrast, 0.9}}}};

constexpr Policy kSvhn = {
    {{{kShearX, 0.9, 4}, {kInvert, 0.2}},          {{kShearY, 0.9, 8}, {kInvert, 0.7}},
     {{kEqualize, 0.6}, {kSolarize, 0.6, 6}},      {{kInvert, 0.9}, {kEqualize, 0.6}},
     {{kEqualize, 0.6}, {kRotate, 0.9, 3}},        {{kShearX, 0.9, 4}, {kAutoContrast, 0.8}},
     {{kShearY, 0.9, 8}, {kInvert, 0.4}},          {{kShearY, 0.9, 5}, {kSolarize, 0.2, 6}},
     {{kInvert, 0.9}, {kAutoContrast, 0.8}},       {{kEqualize, 0.6}, {kRotate, 0.9, 3}},
     {{kShearX, 0.9, 4}, {kSolarize, 0.3, 3}},     {{kShearY, 0.8, 8}, {kInvert, 0.7}},
     {{kEqualize, 0.9}, {kTranslateY, 0.6, 6}},    {{kInvert, 0.9}, {kEqualize, 0.6}},
     {{kContrast, 0.3, 3}, {kRotate, 0.8, 4}},     {{kInvert, 0.8}, {kTranslateY, 0, 2}},
     {{kShearY, 0.7, 6}, {kSolarize, 0.4, 8}},     {{kInvert, 0.6}, {kRotate, 0.8, 4}},
     {{kShearY, 0.3, 7}, {kTranslateX, 0.9, 3}},   {{kShearX, 0.1, 6}, {kInvert, 0.6}},
     {{kSolarize, 0.7, 2}, {kTranslateY, 0.6, 7}}, {{kShearY, 0.8, 4}, {kInvert, 0.8}},
     {{kShearX, 0.7, 9}, {kTranslateY, 0.8, 3}},   {{kShearY, 0.8, 5}, {kAutoContrast, 0.7}},
     {{kShearX, 0.7, 2}, {kInvert, 0.1}}}};

const Policy& pairs_of(AugmentPolicy policy) {
  if (policy == AugmentPolicy::kSvhn) return kSvhn;
  return policy == AugmentPolicy::kCifar10 ? kCifar10 : kImageNet;
}

class AutoAugmentStep final : public detail::PolicyStep {
 public:
  explicit AutoAugmentStep(const AutoAugment& options)
      : PolicyStep(fill_of(options.fill)), options_(options) {}

  std::vector<Drawn> draw(const Pixels& pixels, KeyedRng& rng) const override {
    const Policy& pairs = pairs_of(options_.policy);
    std::vector<Drawn> all;
    const Pair& pair = pairs[rng.below(pairs.size())];
    for (const Chance& chance : {pair.first, pair.second}) {
      const bool done = static_cast<double>(rng.uniform()) < chance.probability;
      const auto& strengths = *std::ranges::find(detail::auto_augment_space(), chance.operation,
                                                 &detail::Strengths::operation);
      const double magnitude =
          random_magnitude(strengths, chance.strength / kHighestStrength, pixels, rng);
      const Interpolation how = *drawn(options_.interpolation, rng);
      if (done) all.push_back({chance.operation, magnitude, how});
    }
    return all;
  }

 private:
  AutoAugment options_;
};

}  // namespace

const ValueType& value_type(const AugmentPolicy&) {
  static const EnumType<AugmentPolicy> type({{"imagenet", AugmentPolicy::kImageNet},
                                             {"cifar10", AugmentPolicy::kCifar10},
                                             {"svhn", AugmentPolicy::kSvhn}});
  return type;
}

const ComponentName AutoAugment::kName = {"autoaugment", "AutoAugment",
                                          "A random pair of operations that was found by search"};

void AutoAugment::fields(FieldList& field) {
  field("policy", policy, "The data set that it was searched for");
  field.by_name();
  list_policy(field, interpolation, fill);
}

void AutoAugment::check() const {
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> AutoAugment::make() const {
  return std::make_unique<AutoAugmentStep>(*this);
}

}  // namespace millrace::decode
