// Medians of rounds, for benchmarks on shared machines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace millrace::bench {

/// For an even number of values the upper of the two middle ones. Requires: at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median of the ratios of each round, since other load changes from round to round.
inline double median_ratio(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / under[i]);
  return median(ratios);
}

}  // namespace millrace::bench
