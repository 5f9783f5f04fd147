// What transforms of levels that are done at random, by one rule, have in common.
#pragma once

#include <memory>
#include <utility>

#include "decode/transform_step.h"

namespace millrace::decode::detail {

/// With the probability, gives every level what `changed` makes of it (0 to 255); else leaves all.
/// One number is drawn for a picture.
template <typename Changed>
std::unique_ptr<TransformStep> random_levels(double probability, Changed changed);

/// What `changed` makes of each level.
template <typename Changed>
LevelStep::Levels level_table(Changed changed);

/// The same of a table.
std::unique_ptr<TransformStep> random_table(double probability, const LevelStep::Levels& table);

/// With the probability, does change(Pixels&); else nothing. One number is drawn for a picture.
template <typename Change>
class RandomChangeStep final : public PixelStep {
 public:
  RandomChangeStep(double probability, Change change)
      : probability_(probability), change_(std::move(change)) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    if (static_cast<double>(rng.uniform()) < probability_) change_(pixels);
  }

 private:
  double probability_;
  Change change_;
};

template <typename Change>
std::unique_ptr<TransformStep> random_change(double probability, Change change) {
  return std::make_unique<RandomChangeStep<Change>>(probability, std::move(change));
}

template <typename Changed>
LevelStep::Levels level_table(Changed changed) {
  LevelStep::Levels table;
  for (int level = 0; level < 256; ++level)
    table[static_cast<std::size_t>(level)] = static_cast<std::uint8_t>(changed(level));
  return table;
}

template <typename Changed>
std::unique_ptr<TransformStep> random_levels(double probability, Changed changed) {
  return random_table(probability, level_table(changed));
}

}  // namespace millrace::decode::detail
