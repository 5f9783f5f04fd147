#include "io/detail/cache/cache_partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/detail/cache/cache_folder.h"

namespace millrace::io::detail {
namespace {

std::uint32_t check_of(const Journal::Range& range) {
  return crc32c(std::as_bytes(std::span(&range, 1)).first(offsetof(Journal::Range, check)));
}

// CRC-32C of each block, and SHA-256 if it is wanted (it costs more than all else), of bytes that
// come in any pieces.
class BlockSums {
 public:
  explicit BlockSums(bool hashes) : hashes_(hashes) {}

  void add(std::span<const std::byte> bytes) {
    if (hashes_) hash_.update(bytes);
    while (!bytes.empty()) {
      const auto some = bytes.first(std::min(bytes.size(), kCacheBlock - filled_));
      crc_ = crc32c(some, crc_);
      filled_ += some.size();
      bytes = bytes.subspan(some.size());
      if (filled_ == kCacheBlock) close();
    }
  }
  std::vector<std::uint32_t> finish() {
    if (filled_ > 0) close();
    return std::move(table_);
  }
  std::string sha256() const { return hash_.hex(); }

 private:
  void close() {
    table_.push_back(crc_);
    crc_ = 0;
    filled_ = 0;
  }

  bool hashes_;
  Sha256 hash_;
  std::vector<std::uint32_t> table_;
  std::uint32_t crc_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace

std::uint64_t Journal::covered_bytes(const std::string& path, std::uint64_t size) {
  Journal journal;
  journal.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  journal.size_ = size;
  return journal.is_open() && journal.refresh() ? journal.covered() : 0;
}

bool Journal::open(const std::string& path, std::uint64_t size) {
  size_ = size;
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  fd_ = UniqueFd(::open(path.c_str(), kFlags, 0600));
  return is_open();
}

bool Journal::refresh() {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > cache_journal_bytes(cache_file_bytes(size_)) || bytes < read_) return false;
  std::vector<Range> more((bytes - read_) / sizeof(Range));
  if (!read_at(fd_.get(), std::as_writable_bytes(std::span(more)), read_)) return false;
  for (const Range& range : more) {
    const bool good = range.check == check_of(range) && range.length > 0 &&
                      range.length <= kLongestRange && range.offset < size_ &&
                      range.length <= size_ - range.offset;
    if (!good) return false;
    add(range);
  }
  read_ += more.size() * sizeof(Range);
  return true;
}

bool Journal::append(std::uint64_t offset, std::span<const std::byte> bytes) {
  Range range{.offset = offset,
              .length = static_cast<std::uint32_t>(bytes.size()),
              .crc = crc32c(bytes),
              .check = 0,
              .zero = 0};
  range.check = check_of(range);
  // Other processes append too: room for one record of each of a hundred is left.
  errno = EFBIG;
  if (read_ + 100 * sizeof(Range) > cache_journal_bytes(cache_file_bytes(size_))) return false;
  errno = 0;
  if (::write(fd_.get(), &range, sizeof(range)) == sizeof(range)) return true;
  if (errno == 0) errno = ENOSPC;
  return false;
}

void Journal::add(const Range& range) {
  ranges_.push_back(range);
  std::uint64_t begin = range.offset;
  std::uint64_t end = range.offset + range.length;
  auto at = intervals_.upper_bound(begin);
  if (at != intervals_.begin() && std::prev(at)->second >= begin) --at;
  while (at != intervals_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = intervals_.erase(at);
  }
  intervals_[begin] = end;
}

bool Journal::covers(std::uint64_t offset, std::uint64_t length) const {
  const auto after = intervals_.upper_bound(offset);
  return after != intervals_.begin() && std::prev(after)->second >= offset + length;
}

std::uint64_t Journal::covered() const {
  std::uint64_t sum = 0;
  for (const auto& [begin, end] : intervals_) sum += end - begin;
  return sum;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Journal::holes() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  std::uint64_t at = 0;
  for (const auto& [begin, end] : intervals_) {
    if (begin > at) found.emplace_back(at, begin - at);
    at = end;
  }
  if (at < size_) found.emplace_back(at, size_ - at);
  return found;
}

// Of the ranges that begin where the last one ended, or before, the one that reaches farthest.
std::vector<Journal::Range> Journal::cover() const {
  std::vector<Range> sorted = ranges_;
  std::ranges::sort(sorted, {}, &Range::offset);
  std::vector<Range> chosen;
  std::uint64_t at = 0;
  for (std::size_t i = 0; at < size_;) {
    const Range* best = nullptr;
    for (; i < sorted.size() && sorted[i].offset <= at; ++i) {
      const auto end = [](const Range& range) { return range.offset + range.length; };
      if (best == nullptr || end(sorted[i]) > end(*best)) best = &sorted[i];
    }
    if (best == nullptr || best->offset + best->length <= at) return {};
    chosen.push_back(*best);
    at = best->offset + best->length;
  }
  return chosen;
}

PartialEntry::PartialEntry(std::string folder, std::uint64_t max_bytes, CachedObject object)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      object_(std::move(object)),
      stem_(folder_ + "/" + object_.name()) {}

Kept PartialEntry::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!wanted_ || completing_) return Kept::kClosed;
  const std::lock_guard lock(mutex_);
  if (!fd_) {
    const Kept opened = open();
    if (opened != Kept::kYes) {
      wanted_ = false;
      return opened;
    }
  }
  if (!in_place()) {
    wanted_ = false;
    return Kept::kClosed;
  }
  if (!journal_.refresh()) {
    drop();
    return Kept::kClosed;
  }
  if (!journal_.covers(offset, bytes.size())) {
    if (!write_at(fd_.get(), bytes, offset) || !journal_.append(offset, bytes)) {
      const int why = errno;
      drop();
      errno = why;
      return Kept::kFault;
    }
    if (!journal_.refresh()) {
      drop();
      return Kept::kClosed;
    }
  }
  return journal_.covered() == object_.size ? Kept::kComplete : Kept::kYes;
}

Kept PartialEntry::open() {
  if (::access((stem_ + ".shard").c_str(), F_OK) == 0) return Kept::kClosed;
  if (open_existing()) return Kept::kYes;
  const auto lock = lock_cache(folder_);
  if (!lock) return Kept::kNoRoom;
  if (::access((stem_ + ".shard").c_str(), F_OK) == 0) return Kept::kClosed;
  if (open_existing()) return Kept::kYes;  // another process was faster
  return create();
}

bool PartialEntry::open_existing() {
  const std::string path = stem_ + ".part";
  fd_ = open_cache_file(path, O_RDWR);
  if (!fd_) return false;
  const auto trailer = read_trailer(fd_.get());
  const bool good = trailer && object_.name() == trailer->name && trailer->size == object_.size &&
                    journal_.open(stem_ + ".journal", object_.size) && journal_.refresh();
  if (good) return true;
  journal_ = {};
  fd_.reset();
  return false;
}

// Its whole size is taken from the room at once, so that it never has to stop half-way.
Kept PartialEntry::create() {
  const std::string path = stem_ + ".part";
  if (!remove_cache_file(path)) return Kept::kNoRoom;
  ::unlink((stem_ + ".journal").c_str());
  if (!make_room(folder_, part_cost(object_.size), max_bytes_)) return Kept::kNoRoom;
  const std::string fan = folder_ + "/" + cache_fan(object_.key);
  if (::mkdir(fan.c_str(), 0700) != 0 && errno != EEXIST) return Kept::kFault;
  fd_ = open_cache_file(path, O_RDWR | O_CREAT | O_EXCL);
  if (!fd_) return Kept::kFault;
  const auto bytes = static_cast<off_t>(cache_file_bytes(object_.size));
  if (::ftruncate(fd_.get(), bytes) == 0 && write_trailer(fd_.get(), make_trailer(object_, 0)) &&
      journal_.open(stem_ + ".journal", object_.size))
    return Kept::kYes;
  const int why = errno;
  drop();
  errno = why;
  return Kept::kFault;
}

bool PartialEntry::in_place() const { return same_file(fd_.get(), stem_ + ".part"); }

// Another process that is writing it keeps it.
void PartialEntry::drop() {
  wanted_ = false;
  fd_.reset();
  journal_ = {};
  remove_cache_file(stem_ + ".part");
}

bool PartialEntry::copy_checksums(std::vector<std::uint32_t>& table, const std::string& sha256) {
  BlockSums sums(!sha256.empty());
  std::vector<std::byte> buffer(Journal::kLongestRange);
  std::uint64_t at = 0;
  for (const Journal::Range& range : journal_.cover()) {
    const auto bytes = std::span(buffer).first(range.length);
    if (!read_at(fd_.get(), bytes, range.offset) || crc32c(bytes) != range.crc) return false;
    sums.add(bytes.subspan(at - range.offset));
    at = range.offset + range.length;
  }
  table = sums.finish();
  return at == object_.size && (sha256.empty() || sha256 == sums.sha256());
}

bool PartialEntry::complete(const std::string& sha256) {
  completing_ = true;
  const std::lock_guard lock(mutex_);
  if (!wanted_ || !fd_) return true;
  // One process completes it; the others find it gone.
  if (::flock(journal_.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  if (!in_place()) return true;
  std::vector<std::uint32_t> table;
  if (!copy_checksums(table, sha256)) {
    drop();
    return false;
  }
  wanted_ = false;
  const CacheTrailer trailer = make_trailer(object_, crc32c(std::as_bytes(std::span(table))));
  if (write_table(fd_.get(), object_.size, table) && write_trailer(fd_.get(), trailer) &&
      rename_to_whole()) {
    ::unlink((stem_ + ".journal").c_str());
    mark_used(fd_.get());
    fd_.reset();
    return true;
  }
  drop();
  return true;
}

// Under the lock: who counts the bytes of the folder meanwhile would find neither name.
bool PartialEntry::rename_to_whole() const {
  const auto lock = lock_cache(folder_);
  return lock && ::rename((stem_ + ".part").c_str(), (stem_ + ".shard").c_str()) == 0;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> PartialEntry::holes_to_fill() {
  const std::lock_guard lock(mutex_);
  if (!wanted_ || !fd_ || !in_place() || !journal_.refresh()) return {};
  const bool alone = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0;
  ::flock(fd_.get(), LOCK_SH | LOCK_NB);
  if (!alone || !in_place() || journal_.covered() < object_.size / 2) return {};
  return journal_.holes();
}

}  // namespace millrace::io::detail
