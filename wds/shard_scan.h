// ShardScan: how many samples a shard has and where they begin, by its headers alone.
//
// What an index would say, without one: payloads are skipped, so that a local shard costs a seek a
// member, a remote one per request where its members are large, a compressed one its unpacking, and
// a pipe: command a run of its own, read to its end.
// Checksums are not in it, so a scan is no index and nothing is checked against it.
//
//   const SetScan scan = scan_shards(opener, shards, {.cache = default_scan_cache()});
//   spec.found.counts = scan.counts();  spec.found.scans = scan.shards;
//
// Damage is no fault here: it is counted as the samples that it costs a reader, at least one, and
// the reader reports it. A scan is kept in the cache folder, a file per shard, and is used as long
// as the shard's size and its time of modification, ETag or Last-Modified are the same.
//
// Threads: free functions, callable from any thread; a ShardScan is a value.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/log.h"
#include "io/opener.h"
#include "wds/shard_index.h"

namespace millrace::wds {

struct ShardScan {
  /// Samples, those included that damage costs; of a rest that cannot be read, one.
  std::uint64_t count = 0;
  /// Where each sample begins in the (unpacked) tar stream, in units of 512 bytes, a tar's block;
  /// none if the shard is damaged.
  std::vector<std::uint32_t> blocks = {};
  std::uint64_t end = 0;  ///< offset of the end marker
  bool compressed = false;
  /// The first fault that a reader will meet.
  std::optional<Error> damage = {};

  std::uint64_t offset_of(std::size_t sample) const { return std::uint64_t{blocks[sample]} * 512; }
  /// The number of the sample at `offset`, or of the first one after it. Requires: no damage.
  std::size_t sample_at(std::uint64_t offset) const;
};

struct ScanOptions {
  /// As the shards will be read.
  bool lenient = false;
  bool concatenated = false;
  /// The folder in which scans are kept; processes that scan the same shards at once divide them.
  /// Empty: they are not kept. One that cannot be written or holds damage is no fault.
  std::string cache = {};
  /// How long another process that scans a shard may give no sign of going on, because it is
  /// stopped or waits itself, until the shard is scanned here too.
  std::chrono::milliseconds patience{5000};
  /// Whether a disk or network fault ends the scan. Otherwise it counts as damage.
  bool fail = true;
  std::stop_token stop = {};
  /// Told what was scanned, and every few seconds how far it is.
  Log log = {};
};

/// Of each shard of a list; null where one was left out.
using ShardScans = std::vector<std::shared_ptr<const ShardScan>>;

/// $XDG_CACHE_HOME/millrace/scans, or below ~/.cache; empty if neither variable is set.
std::string default_scan_cache();

/// The shard at `url` as far as its headers say: a ShardIndex whose checksums, size and SHA-256 are
/// 0 and empty. A hard link has its own place and no bytes. Throws: as ShardReader::next() for
/// damage in headers.
ShardIndex scan_contents(const io::Opener& opener, const std::string& url,
                         const ShardOptions& options = {});

/// The scan of one shard, from the cache if it has it. Requires: io::can_reopen(url). Throws:
/// Cancelled, std::bad_alloc; with `options.fail`, Io.
ShardScan scan_shard(const io::Opener& opener, const std::string& url,
                     const ScanOptions& options = {});

/// The scans of those `shards` for which `wanted` (one flag per shard) holds, sixteen at a time;
/// null if one of them cannot be opened again. Throws: as scan_shard().
std::shared_ptr<const ShardScans> scan_shards(const io::Opener& opener,
                                              std::span<const std::string> shards,
                                              const std::vector<bool>& wanted,
                                              const ScanOptions& options = {});

}  // namespace millrace::wds
