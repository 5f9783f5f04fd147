// An object that is being gathered from the ranges that its readers read, in all processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/detail/cache/cache_entry.h"

namespace millrace::io::detail {

/// The ranges that a .part has, as a list that only grows. Every process appends; a range is added
/// when its bytes are written.
class Journal {
 public:
  static constexpr std::size_t kLongestRange = std::size_t{4} << 20U;

  struct Range {
    std::uint64_t offset;
    std::uint32_t length;
    std::uint32_t crc;    ///< CRC-32C of its bytes as they came
    std::uint32_t check;  ///< of what is before
    std::uint32_t zero;
  };

  /// How much of an object of `size` bytes the journal at `path` lists.
  static std::uint64_t covered_bytes(const std::string& path, std::uint64_t size);

  bool open(const std::string& path, std::uint64_t size);
  bool is_open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  /// Reads what all processes have added; false if the journal is damaged.
  bool refresh();
  bool append(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Whether it lists all of the range.
  bool covers(std::uint64_t offset, std::uint64_t length) const;
  std::uint64_t covered() const;
  /// What it does not list: offset and length.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> holes() const;
  /// Ranges that together are the whole object, by offset. Requires: covered() is its size.
  std::vector<Range> cover() const;

 private:
  void add(const Range& range);

  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;
  std::vector<Range> ranges_;
  std::map<std::uint64_t, std::uint64_t> intervals_;  // offset to end, disjoint
};

/// What became of bytes that were to be kept.
enum class Kept {
  kYes,
  kComplete,  ///< and now all ranges are there
  kNoRoom,    ///< it does not fit, or all else is in use
  kFault,     ///< the disk is full or fails; errno says why
  kClosed,    ///< it is whole already, or was given up
};

/// Threads: any; a write during complete() is of no use, and returns at once.
class PartialEntry {
 public:
  PartialEntry(std::string folder, std::uint64_t max_bytes, CachedObject object);

  const CachedObject& object() const { return object_; }
  /// Whether bytes are still of use.
  bool wanted() const { return wanted_; }

  Kept write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Verifies all bytes, and publishes the entry. Returns false if they are not what came, or not
  /// what `sha256` (unless empty) says; the entry is then dropped. Requires: a write() returned
  /// kComplete.
  bool complete(const std::string& sha256);
  /// What is missing, if nobody else is reading and at least half is there.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> holes_to_fill();

 private:
  Kept open();
  bool open_existing();
  Kept create();
  bool in_place() const;
  bool rename_to_whole() const;
  void drop();
  bool copy_checksums(std::vector<std::uint32_t>& table, const std::string& sha256);

  std::string folder_;
  std::uint64_t max_bytes_;
  CachedObject object_;
  std::string stem_;
  std::atomic<bool> wanted_ = true;
  std::atomic<bool> completing_ = false;
  std::mutex mutex_;
  UniqueFd fd_;
  Journal journal_;
};

}  // namespace millrace::io::detail
