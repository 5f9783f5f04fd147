// The files of a cache, and one whole entry.
//
// DIR/ab/KEY-VERSION.part is an object that is being gathered, .journal beside it lists the ranges
// that are there, and .shard is a whole object; KEY begins with ab. A name tells which object and
// which version of it a file holds, so that no two versions ever share a file. A .part and a
// .shard have the same layout: the object's bytes, the CRC-32C of each of its blocks, a trailer. In
// the machine's byte order: a cache does not travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/detail/files/unique_fd.h"

namespace millrace::io::detail {

inline constexpr std::size_t kCacheBlock = std::size_t{64} << 10U;

/// One version of one object.
struct CachedObject {
  std::string key;  ///< a hash of its url
  std::string url;  ///< printable
  std::uint64_t size = 0;
  std::string version = {};

  /// "ab/KEY-VERSION", without a suffix.
  std::string name() const;
};

/// A hash of `url` without user, password, fragment and signature.
std::string cache_key(const std::string& url);
/// The folder below a cache for all entries of `key`: "ab".
std::string cache_fan(const std::string& key);

enum class CacheFileKind { kWhole, kPart, kJournal };
/// Nothing if `name` (in its folder) is not a cache's file.
std::optional<CacheFileKind> cache_file_kind(const std::string& name);

/// What a file says about itself.
struct CacheTrailer {
  char magic[8];
  std::uint64_t size;
  char name[64];  ///< CachedObject::name()
  char url[900];
  std::uint32_t table_crc;
  std::uint32_t crc;  ///< of all before
};

std::uint64_t num_cache_blocks(std::uint64_t size);
/// Bytes of the file that holds an object of `size` bytes.
std::uint64_t cache_file_bytes(std::uint64_t size);
/// Bytes that the journal of such a file may have at most.
std::uint64_t cache_journal_bytes(std::uint64_t size);

/// Opens a file of a cache, and shares its lock so that it is not removed; null if it is not a
/// regular file, is gone, or is being removed.
UniqueFd open_cache_file(const std::string& path, int flags);
/// The trailer of an open file; nothing if it is damaged.
std::optional<CacheTrailer> read_trailer(int fd);
CacheTrailer make_trailer(const CachedObject& object, std::uint32_t table_crc);
/// Writes trailer or table at their places; false (and errno) if the disk fails.
bool write_trailer(int fd, const CacheTrailer& trailer);
bool write_table(int fd, std::uint64_t size, std::span<const std::uint32_t> table);
/// Reads or writes all of `bytes`; false (and errno) if that fails.
bool read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset);
bool write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset);

/// Sets a file's time of last use, which is its time of modification.
void mark_used(int fd);

/// A whole entry, open. Threads: any.
class WholeEntry {
 public:
  /// Null if there is none, or a damaged one, which is removed. `name`: CachedObject::name().
  static std::shared_ptr<const WholeEntry> open(const std::string& folder, const std::string& name);

  std::uint64_t size() const { return size_; }
  /// Reads block `index` into `block` and returns its bytes; empty if they are damaged.
  std::span<const std::byte> read(std::uint64_t index, std::span<std::byte> block) const;
  /// Removes the file, unless another one took its place.
  void remove() const;

 private:
  WholeEntry(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  bool load(const std::string& name);

  UniqueFd fd_;
  std::string path_;
  std::uint64_t size_ = 0;
  std::vector<std::uint32_t> table_;
};

}  // namespace millrace::io::detail
