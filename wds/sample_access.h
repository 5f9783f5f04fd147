// SampleAccess: the samples of a set of plain tars by number, each by one ranged read.
//
//   const auto set = find_contents(opener, shards, {.indexed = true});
//   const SampleAccess access(opener, set);
//   const Sample sample = access.sample(41);
//
// Numbers go through the shards in the order of their list. Neighbours in a shard are read
// together. Where a shard has an index, samples are checked against it.
//
// Threads: const members from any thread. Buffers: SetContents, about 256 bytes per sample of
// shards with an index and 4 of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/join.h"
#include "wds/sample.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"
#include "wds/shard_scan.h"

namespace millrace::wds {

/// What each shard of a list holds, and where.
struct SetContents {
  struct Shard {
    std::string url;
    std::shared_ptr<const ShardIndex> index = {};  ///< or else the scan
    std::shared_ptr<const ShardScan> scan = {};
    std::uint64_t first = 0;  ///< number of its first sample

    std::uint64_t count() const { return index ? index->samples.size() : scan->count; }
    /// Where sample `sample` begins, or for count() the end marker.
    std::uint64_t offset_of(std::uint64_t sample) const;
  };
  std::vector<Shard> shards;
  std::uint64_t count = 0;  ///< samples of all

  /// The number in `shards` of the one that holds the sample. Requires: number < count.
  std::size_t shard_of(std::uint64_t number) const;
  /// Bytes of the sample in its shard, headers included.
  std::uint64_t bytes_of(std::uint64_t number) const;
};

struct ContentsOptions {
  /// Whether the shards' indexes are read.
  bool indexed = true;
  /// Whether shards without an index are scanned, and how.
  bool scanned = true;
  ScanOptions scan = {};
  /// By whose policy a damaged index counts as none, with a warning, or is a fault. Borrowed; null:
  /// a fault.
  FaultLedger* ledger = nullptr;
};

/// Throws: Io for an index that cannot be reached, since without it nothing would check the
/// samples; as find_index(), by the ledger's policy; InvalidArgument if samples of a shard cannot
/// be found by their place: it has neither index nor scan, it is damaged, compressed, or a pipe; as
/// scan_shards(); Cancelled.
std::shared_ptr<const SetContents> find_contents(const io::Opener& opener,
                                                 std::span<const std::string> shards,
                                                 const ContentsOptions& options = {});

class SampleAccess {
 public:
  /// Lifetime: `opener` must outlive this. Of `options`, what says where to begin is set here.
  /// `joins`, if given, complete the samples; they should keep all contents, and `ledger`, borrowed
  /// and not null then, receives their warnings.
  SampleAccess(const io::Opener& opener, std::shared_ptr<const SetContents> set,
               ShardOptions options = {}, std::shared_ptr<const Joins> joins = {},
               FaultLedger* ledger = nullptr);

  std::uint64_t size() const { return set_->count; }
  const SetContents& contents() const { return *set_; }
  /// Throws: as ShardReader::next(). Requires: number < size().
  Sample sample(std::uint64_t number) const;

  /// Called for each number, by its place among those asked for: the sample, or what it cost.
  struct Result {
    std::size_t place = 0;
    Sample sample = {};
    const Error* fault = nullptr;  ///< in place of the sample
  };
  /// Reads samples in the order of their places in the set, and requests those of several places at
  /// once. Throws: Cancelled, and as `take`.
  void samples(std::span<const std::uint64_t> numbers,
               const std::function<void(Result result)>& take) const;

 private:
  struct Run;
  std::vector<Run> runs_of(std::span<const std::uint64_t> numbers) const;
  void open(Run& run) const;
  void read(Run& run, const std::function<void(Result result)>& take) const;

  const io::Opener& opener_;
  std::shared_ptr<const SetContents> set_;
  ShardOptions options_;
  std::shared_ptr<const Joins> joins_;
  FaultLedger* ledger_;
};

}  // namespace millrace::wds
