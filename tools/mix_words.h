// MixWords: several sets of shards with their weights, as words of the command line: 0.7:SPEC.
//
//   MixWords mix;
//   mix.declare(app);                     // --mix-end
//   mix.check(words, order, "--train ");  // before anything is opened
//   lists.urls(MixWords::specs_of(words));
//   options.mix = mix.sets(words, lists);
//
// Threads: a value type.
#pragma once

#include <string>
#include <vector>

#include "pipeline/options.h"
#include "tools/order_options.h"
#include "tools/shard_lists.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct MixWords {
  wds::MixEnd end = wds::MixEnd::kStop;

  void declare(CLI::App& app);
  /// Throws: InvalidArgument if only some of `words` have weights, which are shown behind `prefix`,
  /// or for options that a mix cannot have.
  void check(const std::vector<std::string>& words, const SampleOrder& order,
             const std::string& prefix) const;
  /// The sets of `words` and what happens at their ends; without parts if there are no weights.
  /// Throws: as ShardLists::urls().
  pipeline::MixOptions sets(const std::vector<std::string>& words, const ShardLists& lists) const;

  static bool has_weight(const std::string& word);
  /// The words without their weights.
  static std::vector<std::string> specs_of(const std::vector<std::string>& words);
};

}  // namespace millrace::tools
