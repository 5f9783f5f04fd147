// SetReport: what `verify` found, over all shards.
//
// Buffers: 16 bytes per key for at most kMaxKeys keys (twice that while growing), at most
// kMaxFaults faults. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/verify/shard_check.h"
#include "wds/key_set.h"

namespace millrace::tools {

struct DuplicateKey {
  std::string key;
  std::string first_url;
  std::string url;
};

class SetReport : public Findings {
 public:
  static constexpr std::size_t kMaxKeys = std::size_t{1} << 22;
  static constexpr std::size_t kMaxFaults = 100'000;
  static constexpr std::size_t kMaxDuplicates = 20;

  /// Adds a shard's report. Called in the shards' order.
  void add(ShardReport shard);
  void add(std::vector<wds::FaultLedger::Entry> more_faults);

  std::uint64_t samples() const { return emitted + skipped; }

  std::uint64_t shards = 0;
  std::uint64_t num_faults = 0;
  std::vector<wds::FaultLedger::Entry> faults = {};  ///< the first kMaxFaults
  std::uint64_t num_duplicates = 0;           ///< samples whose key is also in an earlier shard
  std::vector<DuplicateKey> duplicates = {};  ///< the first kMaxDuplicates
  ClassMix classes = {};
  /// Whether duplicates were searched only among the first kMaxKeys keys.
  bool keys_cut() const { return keys_.full(); }

 private:
  void add_keys(const ShardReport& shard);

  std::vector<std::string> urls_;
  wds::KeySet keys_{kMaxKeys};
};

/// One JSON object: {"shards","samples","emitted","skipped","faults":[...]}, followed by all other
/// findings.
std::string to_json(const SetReport& report);
/// The same as lines for people.
std::vector<std::string> to_lines(const SetReport& report);

}  // namespace millrace::tools
