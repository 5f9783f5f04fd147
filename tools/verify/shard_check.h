// check_shard: reads a shard to its end, decodes every field by its suffix, reports all faults.
//
// If the shard has an index, it is compared with that too: keys, offsets, sizes, CRC-32, count and
// end; with a manifest its size, SHA-256 and number of samples. A fault does not end the check,
// unless it makes the rest unreachable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/opener.h"
#include "tools/manifest_facts.h"
#include "tools/verify/class_mix.h"
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

/// Samples that have exactly the same suffixes.
struct FieldSet {
  std::uint64_t samples = 0;
  std::string first_key = {};
};

/// Something that is worth a line, how often, and where it was first.
struct Finding {
  std::uint64_t count = 0;
  std::string first = {};

  void add(const Finding& other) {
    if (count == 0) first = other.first;
    count += other.count;
  }
};

struct ShardReport {
  std::string url;
  bool indexed = false;
  bool in_manifest = false;
  wds::StoredPictures stored = {};  ///< what the manifest says of its pictures
  std::uint64_t emitted = 0;
  std::uint64_t skipped = 0;
  std::uint64_t unknown_shards = 0;
  std::uint64_t warnings = 0;
  std::uint64_t refetched = 0;  ///< samples, or the index, that were intact when fetched again
  Finding untidy = {};          ///< images with a harmless oddity
  Finding unequal_sizes = {};   ///< samples whose pictures, masks among them, differ in size
  /// A changed payload byte would go undetected: no index, no SHA-256 in a manifest, and no
  /// checksums in the file (an uncompressed tar, or zstd or xz without them).
  bool unguarded = false;
  std::vector<wds::FaultLedger::Entry> faults = {};
  std::map<std::string, FieldSizes> fields = {};
  std::map<std::string, FieldSet> field_sets = {};  ///< by "cls,jpg"
  ShardClasses classes = {};
  std::vector<std::string> keys = {};  ///< of the samples read, in order
  /// Number of samples that were refused because their key had occurred before.
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
