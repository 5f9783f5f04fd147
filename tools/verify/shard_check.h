// check_shard: reads a shard to its end, decodes every field by its suffix, reports all faults.
//
// If the shard has an index, it is compared with that too: keys, offsets, sizes, CRC-32, count and
// end; with a manifest its size, SHA-256 and number of samples. A fault does not end the check,
// unless it makes the rest unreachable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
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

  void add(const FieldSet& other);
};

/// Something that is worth a line, how often, and where it was first.
struct Finding {
  std::uint64_t count = 0;
  std::string first = {};

  void add(const Finding& other);
};

/// What is found in a shard or, summed, in a set. A new finding is a member and its line in
/// visit().
struct Findings {
  std::uint64_t indexed = 0;      ///< shards that have an index
  std::uint64_t in_manifest = 0;  ///< shards that a manifest lists
  /// Shards by what their manifests say of their pictures, (jpeg, image); none for those that say
  /// nothing.
  std::map<std::pair<std::string, std::string>, std::uint64_t> stored = {};
  std::uint64_t emitted = 0;
  std::uint64_t skipped = 0;
  std::uint64_t unknown_shards = 0;
  std::uint64_t warnings = 0;
  std::uint64_t refetched = 0;  ///< samples, or the index, that were intact when fetched again
  Finding untidy = {};          ///< images with a harmless oddity
  Finding unequal_sizes = {};   ///< samples whose pictures, masks among them, differ in size
  /// Shards of which a changed payload byte would go undetected: no index, no SHA-256 in a
  /// manifest, and no checksums in the file (an uncompressed tar, or zstd or xz without them).
  std::uint64_t unguarded = 0;
  std::map<std::string, FieldSizes> fields = {};
  std::map<std::string, FieldSet> field_sets = {};  ///< by "cls,jpg"
  /// Samples that were refused because their key had occurred before in their shard.
  std::uint64_t interleaved = 0;

  void add(const Findings& other);

  /// Calls `each` with the name of every member and the pointer to it.
  template <typename Each>
  static void visit(const Each& each) {
    each("indexed", &Findings::indexed);
    each("in_manifest", &Findings::in_manifest);
    each("stored", &Findings::stored);
    each("emitted", &Findings::emitted);
    each("skipped", &Findings::skipped);
    each("unknown_shards", &Findings::unknown_shards);
    each("warnings", &Findings::warnings);
    each("refetched", &Findings::refetched);
    each("untidy", &Findings::untidy);
    each("unequal_sizes", &Findings::unequal_sizes);
    each("unguarded", &Findings::unguarded);
    each("fields", &Findings::fields);
    each("field_sets", &Findings::field_sets);
    each("interleaved", &Findings::interleaved);
  }
};

struct ShardReport : Findings {
  std::string url = {};
  std::vector<wds::FaultLedger::Entry> faults = {};
  ShardClasses classes = {};
  std::vector<std::string> keys = {};  ///< of the samples read, in order
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
