// Counted: one sample's values and targets without those whose target is NaN, which is how padding
// and other places without a value are told from the rest.
//
// Threads: a value.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace millrace::trainer {

class Counted {
 public:
  /// Both are borrowed. Requires: they are equally long.
  Counted(std::span<const float> values, std::span<const float> targets)
      : values_(values), targets_(targets) {
    if (any_missing(targets)) leave_out();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  /// All that was given, if no target is NaN.
  std::span<const float> values() const { return values_; }
  std::span<const float> targets() const { return targets_; }

 private:
  // A loop without a branch over 32-bit integers, which the compiler vectorises.
  static bool any_missing(std::span<const float> targets) {
    int found = 0;
    for (const float target : targets) found |= std::isnan(target) ? 1 : 0;
    return found != 0;
  }

  void leave_out() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (std::isnan(targets_[i])) continue;
      own_values_.push_back(values_[i]);
      own_targets_.push_back(targets_[i]);
    }
    values_ = own_values_;
    targets_ = own_targets_;
  }

  std::span<const float> values_;
  std::span<const float> targets_;
  std::vector<float> own_values_;
  std::vector<float> own_targets_;
};

}  // namespace millrace::trainer
