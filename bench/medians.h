// Medians, by which benchmarks report rounds on machines that others use too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace millrace::bench {

/// The upper of the two middle values where their number is even. Requires: one value at least.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of the rounds' own ratios: what else the machine does changes from one round to the next.
inline double median_ratio(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / under[i]);
  return median(ratios);
}

}  // namespace millrace::bench
