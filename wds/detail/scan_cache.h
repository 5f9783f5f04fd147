// The cache of scans: a file per shard, in one folder.
//
//   {"blocks": [3, 4, ...], "bytes": 10240, "compressed": false, "crc32": "...", "end": 20,
//    "millrace_scan": 1, "url": "...", "version": "..."}
// `blocks` are the differences from one sample's beginning to the next in units of 512 bytes,
// `crc32` is that of their text.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "wds/shard_scan.h"

namespace millrace::wds::detail {

/// What a shard's stored bytes were when it was scanned.
struct ScannedObject {
  std::uint64_t bytes = 0;
  std::string version = {};  ///< io::ByteSource::version()

  bool operator==(const ScannedObject&) const = default;
};

struct CachedScan {
  ScannedObject object = {};
  ShardScan scan = {};
};

/// The file in `options.cache` for the shard at `url`, read as `options` say.
std::string scan_path(const std::string& url, const ScanOptions& options);
/// What is in the file; nullopt if there is none. One that is damaged is deleted. Never throws for
/// what a disk or a file may do.
std::optional<CachedScan> read_scan(const std::string& path);
/// Writes the file, complete or not at all. Does nothing if it cannot be written.
void write_scan(const std::string& path, const std::string& url, const CachedScan& cached);

}  // namespace millrace::wds::detail
