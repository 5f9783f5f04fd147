// Joiner: completes the samples of one shard from those that are joined to it.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wds/detail/forward_reader.h"
#include "wds/fault_ledger.h"
#include "wds/join.h"

namespace millrace::wds::detail {

class Joiner {
 public:
  /// Finds what the shards hold that complete the one at `url`. `opener` and `ledger` are borrowed.
  /// `options` is how they are read; with `listed`, as far as their contents say. Throws: as
  /// Joins::contents().
  Joiner(const Joins& joins, const std::string& url, const io::Opener& opener,
         const ShardOptions& options, FaultLedger* ledger);

  /// Adds to `sample` the fields of those with its key. The ledger is warned of a shard that
  /// completes none of the first samples: its keys may be others. Throws: Corrupt for a suffix that
  /// several of them have; as ShardReader::next(), with the url of the shard that has the fault.
  /// The next sample can be completed then.
  void complete(Sample& sample);
  /// That were read, unpacked.
  std::uint64_t bytes() const;

 private:
  /// Samples of a shard without a partner, and none with one, until that is said.
  static constexpr int kMostWithout = 16;

  struct Partner {
    std::shared_ptr<const std::string> url;
    std::shared_ptr<const JoinedContents> contents;
    ForwardReader reader;
    int without = 0;  ///< samples before the first that has one here
    bool is_used = false;
  };

  void miss(Partner& partner, const Sample& sample) const;

  static void add(const Partner& partner, Sample found, Sample& sample);

  bool listed_;
  FaultLedger* ledger_;
  std::vector<Partner> partners_;
};

}  // namespace millrace::wds::detail
