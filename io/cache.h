// CachingOpener: an Opener whose network objects stay on a local disk, so that a second epoch and a
// second process read them from there.
//
//   auto network = std::make_shared<io::UrlOpener>();
//   io::CachingOpener opener(network, {.folder = "/scratch/cache", .max_bytes = 100ULL << 30});
//   auto source = opener.open("s3://bucket/train-000000.tar");   // streamed, and kept
//
// What is read from the network is handed up at once; a copy goes to a thread that writes it.
// Reading never waits for that thread: bytes that it cannot take are not kept. An object becomes
// whole from whatever ranges its readers, in all processes, have read; ranges that only a few
// readers left out are fetched in the background. Only a whole object whose bytes were verified is
// served: by the CRC-32C of each range as it came, and by its SHA-256 if Opener::expect_digest()
// was told one. Each block of 64 KiB that is served is compared with its CRC-32C before it is
// handed up; a damaged entry is dropped and reading continues from the network.
//
// An entry belongs to one url, size and version (ByteSource::version(); an object without one is
// not kept). Once per process and object a request for one byte asks whether the object is still
// that one; an object that changes later is not noticed by a process that has it whole. Objects
// opened by a url with a query string are kept under the url without its signature
// (X-Amz-*, X-Goog-*); file names and metadata hold hashes, and the url as printable_url() shows
// it. Files, streams and sinks pass through.
//
// Processes of one machine share a folder. Before an object is begun, those least recently used
// make room for all of it: the sum of all files is never over `max_bytes`. Entries that a process
// has open are not removed; what does not fit is not kept. A process may be killed at any moment:
// what it began is continued by the next one that reads the object. The folder holds what
// credentials gave access to, and is made for its owner alone.
//
// Threads: open() may be called from many threads. Two threads write and complete entries; the
// destructor waits until what was read is written, unless the stop was requested. Buffers: 1 MiB
// per source and `queue_bytes`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"

namespace millrace::io {

struct CacheOptions {
  /// A local folder, created if missing; its parent must exist.
  std::string folder = {};
  /// Maximum sum of the sizes of all files in it, in bytes.
  std::uint64_t max_bytes = std::uint64_t{100} << 30U;
  /// Whether the object at a url is kept. An object that changes while a process runs, such as a
  /// lock or a list, must not be. Default: all are.
  std::function<bool(const std::string& url)> keep = {};
  /// What waits to be written at most, in bytes; what exceeds it is not kept.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  /// For whatever is opened without a stop of its own; ends the writing as well.
  std::stop_token stop = {};
  /// Told once of a disk that is full, read-only or too slow, and of a server whose objects cannot
  /// be kept; and of each damaged entry.
  Log log = {};
};

class CachingOpener final : public Opener {
 public:
  /// Where the folder may not be made, or not written to, nothing is kept. Throws: InvalidArgument
  /// if the folder is a url, NotFound or Io if it cannot be one.
  CachingOpener(std::shared_ptr<const Opener> inner, CacheOptions options);
  ~CachingOpener() override;
  std::unique_ptr<ByteSource> open(const std::string& url,
                                   const OpenOptions& options = {}) const override;
  bool can_list(const std::string& url) const override;
  std::vector<ListedObject> list(const std::string& prefix,
                                 const ListOptions& options = {}) const override;
  std::unique_ptr<ByteSink> open_sink(const std::string& url, const FileSinkOptions& options = {},
                                      const std::stop_token& stop = {}) const override;
  void remove(const std::string& url, const std::stop_token& stop = {}) const override;
  void expect_digest(const std::string& url, const std::string& sha256) const override;

 private:
  std::shared_ptr<const Opener> inner_;
  std::shared_ptr<class CacheState> state_;  // null: there is no folder
};

/// What a file of a cache is. Leftover: a process was killed while it began or removed an entry;
/// the file holds nothing that could be served.
enum class CacheEntryState { kWhole, kPart, kLeftover, kDamaged };

/// One file of a cache.
struct CacheEntry {
  std::string path = {};
  /// As printable_url() shows it; empty if the entry is damaged or a leftover.
  std::string url = {};
  /// The object's size; of a damaged entry or a leftover, the file's.
  std::uint64_t bytes = 0;
  /// Of those, how many are there.
  std::uint64_t present_bytes = 0;
  /// What it counts against the limit.
  std::uint64_t cost_bytes = 0;
  std::chrono::system_clock::time_point last_used = {};
  CacheEntryState state = CacheEntryState::kDamaged;
};

/// The entries of the cache at `folder`, the least recently used first. Reads no data. Throws:
/// NotFound, Io.
std::vector<CacheEntry> list_cache(const std::string& folder);
/// Reads all of `entry` and returns whether it is intact, or gone by now; removes it if not. A
/// leftover is removed and counts as intact. Throws: Cancelled.
bool verify_cache_entry(const CacheEntry& entry, const std::stop_token& stop = {});
/// Removes damaged entries, leftovers, and then those least recently used until the rest costs at
/// most `max_bytes`; entries in use stay. Returns what was removed. Throws: NotFound, Io (a process
/// holds the cache's lock for long).
std::vector<CacheEntry> prune_cache(const std::string& folder, std::uint64_t max_bytes);

}  // namespace millrace::io
