// What the transforms that change each level by one rule, at random, have in common.
#pragma once

#include <memory>

#include "decode/transform_step.h"

namespace millrace::decode::detail {

/// With the probability, gives every level what `changed` makes of it (0 to 255); else leaves all.
/// One number is drawn for a picture.
template <typename Changed>
std::unique_ptr<TransformStep> random_levels(double probability, Changed changed);

/// The same of a table.
std::unique_ptr<TransformStep> random_table(double probability, const LevelStep::Levels& table);

template <typename Changed>
std::unique_ptr<TransformStep> random_levels(double probability, Changed changed) {
  LevelStep::Levels table;
  for (int level = 0; level < 256; ++level)
    table[static_cast<std::size_t>(level)] = static_cast<std::uint8_t>(changed(level));
  return random_table(probability, table);
}

}  // namespace millrace::decode::detail
