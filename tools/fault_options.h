// FaultOptions: what a damaged shard is to a command.
//
//   FaultOptions faults;
//   faults.declare(app);  // --on-fault --lenient --concatenated --require-index
//                         // --tolerate-truncated
//   faults.settle();      // once the words are parsed
//   auto ledger = wds::FaultLedger(faults.policy(), log);
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "tools/component_option.h"
#include "wds/fault_policies.h"
#include "wds/shard_reader.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class FaultOptions {
 public:
  /// Accepts interleaved keys, and a missing end marker between two samples.
  bool lenient = false;
  /// Continues after an end marker if another archive follows.
  bool concatenated = false;
  /// Whether a shard without a usable index is a fault.
  bool require_index = false;
  /// Whether damaged and truncated JPEGs are decoded as far as possible.
  bool tolerate_truncated = false;

  static const millrace::Table& table() { return wds::standard_fault_policies(); }

  void declare(CLI::App& app);
  /// Without --on-fault, for commands that continue after every fault.
  void declare_for_survey(CLI::App& app);
  /// Throws: InvalidArgument for a policy that is none.
  void settle();

  /// Its samples_of is for who knows the shards (ReadOptions::policy()).
  wds::FaultPolicy policy() const;
  /// How one shard is read under the policy.
  wds::ShardOptions shard_options(std::stop_token stop) const;

 private:
  void declare_leniency(CLI::App& app);

  std::optional<ComponentOption> on_fault_;  // where it is declared
  wds::FaultPolicy chosen_;
  std::shared_ptr<wds::SaidWarnings> said_ = std::make_shared<wds::SaidWarnings>();
};

}  // namespace millrace::tools
