// A cache's folder as a whole: what is in it, and room for more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/file_lock.h"
#include "io/cache.h"
#include "io/detail/cache/cache_entry.h"

namespace millrace::io::detail {

/// The lock under which files are made, renamed, and room is made; null if others hold it for 10 s.
/// Throws: NotFound, Io.
std::unique_ptr<FileLock> lock_cache(const std::string& folder);

/// Whether there is a whole entry of `key`, in any version.
bool has_whole_entry(const std::string& folder, const std::string& key);

/// Removes the file (and a journal beside it) unless it is in use; whether it is gone.
bool remove_cache_file(const std::string& path);

/// Removes entries, the least recently used first, until `bytes` more fit into `max_bytes`; false
/// if they cannot. Requires: the lock.
bool make_room(const std::string& folder, std::uint64_t bytes, std::uint64_t max_bytes,
               std::vector<CacheEntry>* removed = nullptr);

/// What the file of an object costs while it is gathered.
std::uint64_t part_cost(std::uint64_t object_bytes);

}  // namespace millrace::io::detail
