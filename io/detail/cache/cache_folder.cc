#include "io/detail/cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/detail/cache/cache_partial.h"

namespace millrace::io {
namespace detail {
namespace {

std::uint64_t on_disk(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

std::string without_suffix(const std::string& path) { return path.substr(0, path.rfind('.')); }

// The names in a folder; none if it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_fan(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A .part gets its trailer right after it is made, so one without was left by a killed process.
void describe(CacheEntry& entry, CacheFileKind kind) {
  const bool whole = kind == CacheFileKind::kWhole;
  entry.state = whole ? CacheEntryState::kDamaged : CacheEntryState::kLeftover;
  const UniqueFd fd(::open(entry.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return;
  const auto trailer = read_trailer(fd.get());
  if (!trailer || !without_suffix(entry.path).ends_with(trailer->name)) return;
  entry.state = whole ? CacheEntryState::kWhole : CacheEntryState::kPart;
  entry.url = trailer->url;
  entry.bytes = trailer->size;
  entry.present_bytes =
      whole ? trailer->size
            : Journal::covered_bytes(without_suffix(entry.path) + ".journal", trailer->size);
}

std::uint64_t cost_of(CacheFileKind kind, std::uint64_t bytes) {
  return on_disk(bytes) + (kind == CacheFileKind::kPart ? cache_journal_bytes(bytes) : 0);
}

bool is_of_use(CacheEntryState state) {
  return state == CacheEntryState::kWhole || state == CacheEntryState::kPart;
}

enum class Detail { kSizes, kAll };

// Journals beside their .part are counted with it; others are leftovers.
std::vector<CacheEntry> entries_of(const std::string& folder, Detail detail) {
  std::vector<CacheEntry> entries;
  for (const std::string& fan : names_in(folder)) {
    if (!is_fan(fan)) continue;
    const std::vector<std::string> names = names_in(folder + "/" + fan);
    const std::set<std::string> there(names.begin(), names.end());
    for (const std::string& name : names) {
      const auto kind = cache_file_kind(name);
      if (!kind) continue;
      if (*kind == CacheFileKind::kJournal && there.contains(without_suffix(name) + ".part"))
        continue;
      CacheEntry entry{.path = folder + "/" + fan + "/" + name};
      struct stat status {};
      if (::lstat(entry.path.c_str(), &status) != 0) continue;
      entry.bytes = static_cast<std::uint64_t>(std::max<off_t>(0, status.st_size));
      entry.cost_bytes = cost_of(*kind, entry.bytes);
      entry.last_used = std::chrono::system_clock::time_point(
          std::chrono::seconds(status.st_mtim.tv_sec) +
          std::chrono::microseconds(status.st_mtim.tv_nsec / 1000));
      if (detail == Detail::kAll) describe(entry, *kind);
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::sort(entries, {}, &CacheEntry::last_used);
  return entries;
}

}  // namespace

std::unique_ptr<FileLock> lock_cache(const std::string& folder) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    if (auto lock = FileLock::try_take(folder + "/.lock")) return lock;
    if (steady_clock::now() >= end) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

bool has_whole_entry(const std::string& folder, const std::string& key) {
  const auto fits = [&](const std::string& name) {
    return name.starts_with(key) && cache_file_kind(name) == CacheFileKind::kWhole;
  };
  return std::ranges::any_of(names_in(folder + "/" + cache_fan(key)), fits);
}

// The journal goes first: a .part without one is empty, a journal without a .part is a leftover.
bool remove_cache_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return true;
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (fd && !same_file(fd.get(), path)) return true;
  if (path.ends_with(".part")) ::unlink((without_suffix(path) + ".journal").c_str());
  return ::unlink(path.c_str()) == 0 || errno == ENOENT;
}

bool make_room(const std::string& folder, std::uint64_t bytes, std::uint64_t max_bytes,
               std::vector<CacheEntry>* removed) {
  if (bytes > max_bytes) return false;
  std::vector<CacheEntry> entries = entries_of(folder, Detail::kSizes);
  std::uint64_t sum = 0;
  for (const CacheEntry& entry : entries) sum += entry.cost_bytes;
  for (const CacheEntry& entry : entries) {
    const bool leftover = entry.path.ends_with(".journal");
    if (sum + bytes <= max_bytes && !leftover) continue;
    if (!remove_cache_file(entry.path)) continue;
    sum -= entry.cost_bytes;
    if (removed != nullptr) removed->push_back(entry);
  }
  return sum + bytes <= max_bytes;
}

std::uint64_t part_cost(std::uint64_t object_bytes) {
  return cost_of(CacheFileKind::kPart, cache_file_bytes(object_bytes));
}

}  // namespace detail

std::vector<CacheEntry> list_cache(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) throw_errno("open", folder, errno);
  if (!S_ISDIR(status.st_mode)) throw_errno("open", folder, ENOTDIR);
  return detail::entries_of(folder, detail::Detail::kAll);
}

bool verify_cache_entry(const CacheEntry& entry, const std::stop_token& stop) {
  const std::size_t fan = entry.path.rfind('/', entry.path.rfind('/') - 1);
  const std::string folder = entry.path.substr(0, fan);
  if (entry.state == CacheEntryState::kLeftover) {
    const auto lock = detail::lock_cache(folder);  // another process may be making it just now
    if (lock) detail::remove_cache_file(entry.path);
    return true;
  }
  if (entry.state == CacheEntryState::kPart || ::access(entry.path.c_str(), F_OK) != 0) return true;
  const auto open =
      detail::WholeEntry::open(folder, detail::without_suffix(entry.path.substr(fan + 1)));
  if (!open) return false;
  std::vector<std::byte> block(detail::kCacheBlock);
  for (std::uint64_t i = 0; i < detail::num_cache_blocks(open->size()); ++i) {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "verifying was stopped");
    if (!open->read(i, block).empty()) continue;
    open->remove();
    return false;
  }
  return true;
}

std::vector<CacheEntry> prune_cache(const std::string& folder, std::uint64_t max_bytes) {
  std::vector<CacheEntry> removed;
  const std::vector<CacheEntry> all = list_cache(folder);
  const auto lock = detail::lock_cache(folder);
  if (!lock) throw Error(ErrorCode::kIo, "another process holds the cache's lock", {.url = folder});
  for (const CacheEntry& entry : all)
    if (!detail::is_of_use(entry.state) && detail::remove_cache_file(entry.path))
      removed.push_back(entry);
  detail::make_room(folder, 0, max_bytes, &removed);
  // Making room looks at sizes alone; what people see has the urls too.
  for (CacheEntry& entry : removed) {
    const auto listed = std::ranges::find(all, entry.path, &CacheEntry::path);
    if (listed != all.end()) entry = *listed;
  }
  return removed;
}

}  // namespace millrace::io
