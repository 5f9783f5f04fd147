#include "decode/detail/random_levels.h"

#include <numeric>

namespace millrace::decode::detail {
namespace {

class RandomTableStep final : public LevelStep {
 public:
  RandomTableStep(double probability, const Levels& table)
      : probability_(probability), table_(table) {}

  Levels levels(KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) < probability_) return table_;
    Levels same;
    std::iota(same.begin(), same.end(), std::uint8_t{0});
    return same;
  }

 private:
  double probability_;
  Levels table_;
};

}  // namespace

std::unique_ptr<TransformStep> random_table(double probability, const LevelStep::Levels& table) {
  return std::make_unique<RandomTableStep>(probability, table);
}

}  // namespace millrace::decode::detail
