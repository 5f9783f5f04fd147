// check_shard: reads one shard to its end, decodes every field by its suffix, and accounts for all.
//
// With its index beside it, what the shard holds is compared with that as well: keys, places,
// sizes, CRC-32, count and end; with a manifest its size, SHA-256 and number of samples. Nothing
// stops at a fault but what it makes unreachable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/opener.h"
#include "tools/verify/class_mix.h"
#include "tools/verify/manifest_facts.h"
#include "wds/fault_ledger.h"
#include "wds/shard_reader.h"

namespace millrace::tools {

/// The fields of one suffix.
struct FieldSizes {
  std::uint64_t count = 0;
  std::uint64_t min = ~std::uint64_t{0};
  std::uint64_t max = 0;
  std::uint64_t total = 0;

  void add(std::uint64_t size);
  void add(const FieldSizes& other);
};

/// Samples that have just the same suffixes.
struct FieldSet {
  std::uint64_t samples = 0;
  std::string first_key = {};
};

struct ShardReport {
  std::string url;
  bool indexed = false;
  bool in_manifest = false;
  std::uint64_t emitted = 0;
  std::uint64_t skipped = 0;
  std::uint64_t unknown_shards = 0;
  std::uint64_t warnings = 0;
  std::uint64_t refetched = 0;  ///< samples, or the index, that came damaged over the network once
  std::uint64_t untidy = 0;     ///< images that decode although something about the file is odd
  std::string first_untidy = {};  ///< the first of them, and what is odd about it
  /// Nothing would notice a payload byte that changed: no index, no SHA-256 in a manifest, and no
  /// checksums in the file (a plain tar, zstd or xz without them).
  bool unguarded = false;
  std::vector<wds::FaultLedger::Entry> faults = {};
  std::map<std::string, FieldSizes> fields = {};
  std::map<std::string, FieldSet> field_sets = {};  ///< by "cls,jpg"
  ShardClasses classes = {};
  std::vector<std::string> keys = {};  ///< of the samples that were read, in order
  /// Keys of samples that the reader refused because they came before.
  std::uint64_t interleaved = 0;
};

struct CheckInput {
  const io::Opener& opener;
  wds::ShardOptions shard = {};
  bool require_index = false;
  bool tolerate_truncated = false;
  const ManifestFacts& manifests;
};

/// Threads: may be called from many threads at once. Throws: Cancelled.
ShardReport check_shard(const std::string& url, const CheckInput& input);

}  // namespace millrace::tools
