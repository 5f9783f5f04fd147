#include "decode/transforms/aug_mix.h"

#include "decode/detail/policy.h"
#include "decode/transforms/sampled.h"
#include "io/base/distributions.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr double kLastStrength = 9;         // the largest of ten
constexpr std::size_t kWithoutColours = 9;  // operations
constexpr std::uint64_t kLongestChain = 3;

class AugMixStep final : public PixelStep {
 public:
  explicit AugMixStep(const AugMix& options) : options_(options), fill_(fill_of(options.fill)) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    const double share = random_beta(options_.alpha, options_.alpha, rng);
    const std::vector<double> shares = chain_shares(rng);
    std::vector<float> mixed(pixels.levels.size());
    add(pixels.levels, 1 - share, mixed);
    std::vector<std::uint8_t> levels;
    for (const double of_chain : shares) {
      levels.assign(pixels.levels.begin(), pixels.levels.end());
      Pixels chained = pixels;
      chained.levels = levels;
      run_chain(chained, rng);
      add(levels, share * of_chain, mixed);
    }
    for (std::size_t i = 0; i < mixed.size(); ++i)
      pixels.levels[i] = static_cast<std::uint8_t>(mixed[i] + kRounding);
  }
  bool moves() const override { return true; }

 private:
  /// Levels are cut off, as in torchvision; but what is a whole number but for rounding is that.
  static constexpr float kRounding = 1.0F / 256;

  /// That sum to 1.
  std::vector<double> chain_shares(KeyedRng& rng) const {
    std::vector<double> shares;
    double sum = 1e-300;
    for (int i = 0; i < options_.mixture_width; ++i) {
      shares.push_back(random_gamma(options_.alpha, rng));
      sum += shares.back();
    }
    for (double& share : shares) share /= sum;
    return shares;
  }

  static void add(std::span<const std::uint8_t> levels, double share, std::vector<float>& mixed) {
    for (std::size_t i = 0; i < mixed.size(); ++i)
      mixed[i] += static_cast<float>(share) * static_cast<float>(levels[i]);
  }

  void run_chain(Pixels& pixels, KeyedRng& rng) const {
    const auto space = detail::aug_mix_space().first(
        options_.all_ops ? detail::aug_mix_space().size() : kWithoutColours);
    const std::uint64_t depth = options_.chain_depth > 0
                                    ? static_cast<std::uint64_t>(options_.chain_depth)
                                    : 1 + rng.below(kLongestChain);
    for (std::uint64_t i = 0; i < depth; ++i) {
      const auto& chosen = space[rng.below(space.size())];
      const auto strength = rng.below(static_cast<std::uint64_t>(options_.severity));
      const double magnitude =
          random_magnitude(chosen, static_cast<double>(strength) / kLastStrength, pixels, rng);
      detail::apply({chosen.operation, magnitude, *drawn(options_.interpolation, rng)}, fill_,
                    pixels);
    }
  }

  AugMix options_;
  Fill fill_;
};

}  // namespace

const ComponentName AugMix::kName = {"augmix", "AugMix",
                                     "Mixes the picture with chains of operations on it"};

void AugMix::fields(FieldList& field) {
  field("severity", severity, {.min = 1, .max = 10}, "Strengths to draw from");
  field("mixture_width", mixture_width, {.min = 1, .max = 64}, "Chains");
  field("chain_depth", chain_depth, {.min = -1, .max = 64}, "Operations of a chain; -1: 1 to 3");
  field("alpha", alpha, {.min = 0, .open_min = true}, "Of the distributions of the chains' shares");
  field("all_ops", all_ops, "With brightness, colour, contrast and sharpness");
  field.by_name();
  list_policy(field, interpolation, fill);
}

void AugMix::check() const {
  require(chain_depth != 0, "chain_depth is at least 1, or -1: 1 to 3");
  check_sampling(interpolation);
  check_fill(fill);
}

std::unique_ptr<TransformStep> AugMix::make() const { return std::make_unique<AugMixStep>(*this); }

}  // namespace millrace::decode
