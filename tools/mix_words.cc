#include "tools/mix_words.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "io/base/error.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// "0.7:SPEC": a weight, and the spec behind it; nullopt for a spec without one.
struct Weighted {
  double weight = 0;
  std::string spec = {};
};

std::optional<Weighted> weighted(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos || word.compare(colon, 2, "::") == 0 ||
      word.compare(colon, 3, "://") == 0)
    return {};
  Weighted set{.spec = word.substr(colon + 1)};
  const char* end = word.data() + colon;
  const auto [read, error] = std::from_chars(word.data(), end, set.weight);
  if (error != std::errc() || read != end) return {};
  return set;
}

}  // namespace

void MixWords::declare(CLI::App& app) {
  add_choice(app, "--mix-end", end, wds::kMixEndWords,
             "What to do when a set of a mix has no sample left, after --repeat times: stop, end "
             "the epoch; repeat, read it again until each set was read once, or --repeat times; "
             "drop, read the others to their ends without it");
}

bool MixWords::has_weight(const std::string& word) { return weighted(word).has_value(); }

std::vector<std::string> MixWords::specs_of(const std::vector<std::string>& words) {
  std::vector<std::string> specs;
  std::ranges::transform(words, std::back_inserter(specs), [](const std::string& word) {
    const auto set = weighted(word);
    return set ? set->spec : word;
  });
  return specs;
}

void MixWords::check(const std::vector<std::string>& words, const SampleOrder& order,
                     const std::string& prefix) const {
  if (std::ranges::none_of(words, has_weight)) {
    require(end == wds::MixEnd::kStop,
            "--mix-end needs a mix: " + prefix + "0.7:SPEC " + prefix + "0.3:SPEC");
    return;
  }
  for (const std::string& word : words)
    require(has_weight(word),
            prefix + word + ": in a mix every set has a weight (0.5:" + word + ")");
  require(order.range.is_all(),
          "--skip-samples and --take-samples are not for a mix: its sets are read whole");
  require(order.shuffle.order != wds::Order::kWebDataset,
          "--order webdataset is not for a mix: its sets are shuffled, or permutations");
  require(!order.epochs.resampled || end == wds::MixEnd::kStop,
          "--mix-end: sets that are --resampled have no end, nothing is repeated or dropped");
  std::vector<double> weights;
  weights.reserve(words.size());
  for (const std::string& word : words) weights.push_back(weighted(word)->weight);
  static_cast<void>(wds::whole_weights(weights));
}

pipeline::MixOptions MixWords::sets(const std::vector<std::string>& words,
                                    const ShardLists& lists) const {
  pipeline::MixOptions mix{.end = end};
  for (const std::string& word : words)
    if (const auto set = weighted(word))
      mix.parts.push_back({.weight = set->weight, .num_shards = lists.urls({set->spec}).size()});
  return mix;
}

}  // namespace millrace::tools
