#include "tools/create/fold_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "io/base/text.h"
#include "wds/sample_stream.h"

namespace millrace::tools {
namespace {

struct Groups {
  std::vector<std::uint64_t> of;     ///< each sample's group
  std::vector<std::uint64_t> sizes;  ///< each group's samples
};

Groups group_samples(const SampleSource& source) {
  Groups groups;
  std::unordered_map<std::string, std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    const std::string name = source.group(i);
    std::uint64_t number = groups.sizes.size();
    if (!name.empty()) number = numbers.emplace(name, number).first->second;
    if (number == groups.sizes.size()) groups.sizes.push_back(0);
    ++groups.sizes[number];
    groups.of.push_back(number);
  }
  return groups;
}

/// Group numbers, the largest group first.
std::vector<std::uint64_t> by_size(const Groups& groups, std::uint64_t seed) {
  std::vector<std::uint64_t> order(groups.sizes.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = i;
  // Stream 0 is the shuffle of the samples themselves.
  KeyedRng rng({.seed = seed, .stream = 1, .purpose = wds::kSampleShuffle});
  shuffle(std::span(order), rng);
  std::stable_sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    return groups.sizes[a] > groups.sizes[b];
  });
  return order;
}

}  // namespace

std::vector<std::uint32_t> split_folds(const SampleSource& source, const FoldOptions& options) {
  const Groups groups = group_samples(source);
  if (groups.sizes.size() < options.folds)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot fill {}", counted(groups.sizes.size(), "group"),
                            counted(options.folds, "fold")));
  std::vector<std::uint32_t> fold_of_group(groups.sizes.size());
  std::vector<std::uint64_t> filled(options.folds);
  for (const std::uint64_t group : by_size(groups, options.seed)) {
    const auto emptiest = std::min_element(filled.begin(), filled.end());
    *emptiest += groups.sizes[group];
    fold_of_group[group] = static_cast<std::uint32_t>(emptiest - filled.begin());
  }
  std::vector<std::uint32_t> folds;
  for (const std::uint64_t group : groups.of) folds.push_back(fold_of_group[group]);
  return folds;
}

}  // namespace millrace::tools
