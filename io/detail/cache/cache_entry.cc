#include "io/detail/cache/cache_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include "io/base/file_lock.h"
#include "io/base/hash.h"
#include "io/base/url_text.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

constexpr std::string_view kMagic = "mrcache1";
constexpr std::size_t kKeyDigits = 32;
constexpr std::size_t kVersionDigits = 24;

std::string digest(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

bool is_signature(std::string_view parameter) {
  std::string name(parameter.substr(0, parameter.find('=')));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.starts_with("x-amz-") || name.starts_with("x-goog-") || name == "signature" ||
         name == "expires" || name == "awsaccesskeyid" || name == "googleaccessid" || name == "sig";
}

// The query string's parameters that name the object; an S3 key may hold a '?' as well.
std::string unsigned_query(std::string_view query) {
  std::string kept;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view parameter = query.substr(0, end);
    if (!is_signature(parameter)) kept.append(1, '&').append(parameter);
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return kept;
}

bool all_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::uint64_t table_place(std::uint64_t size) { return (size + 7) / 8 * 8; }
std::uint64_t trailer_place(std::uint64_t size) {
  return table_place(size) + (num_cache_blocks(size) * 4 + 7) / 8 * 8;
}

std::uint32_t trailer_crc(const CacheTrailer& trailer) {
  return crc32c(std::as_bytes(std::span(&trailer, 1)).first(offsetof(CacheTrailer, crc)));
}

}  // namespace

std::string CachedObject::name() const {
  const std::string tag = digest(std::to_string(size) + "\n" + version).substr(0, kVersionDigits);
  return cache_fan(key) + "/" + key + "-" + tag;
}

// printable_url() drops user, password, query and fragment; of those the query names the object.
std::string cache_key(const std::string& url) {
  std::string named = printable_url(url);
  const std::size_t tail = query_begin(url);
  if (tail != std::string::npos && url[tail] == '?') {
    const std::size_t end = std::min(url.find('#', tail), url.size());
    const auto query = std::string_view(url).substr(tail + 1, end - tail - 1);
    named.append(1, '\n').append(unsigned_query(query));
  }
  return digest(named).substr(0, kKeyDigits);
}

std::string cache_fan(const std::string& key) { return key.substr(0, 2); }

std::optional<CacheFileKind> cache_file_kind(const std::string& name) {
  constexpr std::size_t kStem = kKeyDigits + 1 + kVersionDigits;
  if (name.size() <= kStem || name[kKeyDigits] != '-') return std::nullopt;
  const std::string_view text = name;
  if (!all_hex(text.substr(0, kKeyDigits)) || !all_hex(text.substr(kKeyDigits + 1, kVersionDigits)))
    return std::nullopt;
  const std::string_view suffix = text.substr(kStem);
  if (suffix == ".shard") return CacheFileKind::kWhole;
  if (suffix == ".part") return CacheFileKind::kPart;
  if (suffix == ".journal") return CacheFileKind::kJournal;
  return std::nullopt;
}

std::uint64_t num_cache_blocks(std::uint64_t size) {
  return size / kCacheBlock + (size % kCacheBlock != 0 ? 1 : 0);
}
std::uint64_t cache_file_bytes(std::uint64_t size) {
  return trailer_place(size) + sizeof(CacheTrailer);
}
std::uint64_t cache_journal_bytes(std::uint64_t size) { return 4096 + size / 64 / 4096 * 4096; }

bool read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

bool write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return true;
}

UniqueFd open_cache_file(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  if (!same_file(fd.get(), path)) return {};
  return fd;
}

std::optional<CacheTrailer> read_trailer(int fd) {
  struct stat status {};
  CacheTrailer trailer{};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < sizeof(trailer)) return std::nullopt;
  if (!read_at(fd, std::as_writable_bytes(std::span(&trailer, 1)), bytes - sizeof(trailer)))
    return std::nullopt;
  const bool good = std::string_view(trailer.magic, sizeof(trailer.magic)) == kMagic &&
                    trailer.crc == trailer_crc(trailer) && trailer.size <= bytes &&
                    cache_file_bytes(trailer.size) == bytes && trailer.name[63] == '\0' &&
                    trailer.url[sizeof(trailer.url) - 1] == '\0';
  return good ? std::optional(trailer) : std::nullopt;
}

CacheTrailer make_trailer(const CachedObject& object, std::uint32_t table_crc) {
  CacheTrailer trailer{};
  std::memcpy(trailer.magic, kMagic.data(), sizeof(trailer.magic));
  trailer.size = object.size;
  object.name().copy(trailer.name, sizeof(trailer.name) - 1);
  object.url.copy(trailer.url, sizeof(trailer.url) - 1);
  trailer.table_crc = table_crc;
  trailer.crc = trailer_crc(trailer);
  return trailer;
}

bool write_trailer(int fd, const CacheTrailer& trailer) {
  return write_at(fd, std::as_bytes(std::span(&trailer, 1)), trailer_place(trailer.size));
}

bool write_table(int fd, std::uint64_t size, std::span<const std::uint32_t> table) {
  return write_at(fd, std::as_bytes(table), table_place(size));
}

// A clock of its own: that of the file system ticks too slowly to order what is used.
void mark_used(int fd) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {now, now};
  ::futimens(fd, times);
}

std::shared_ptr<const WholeEntry> WholeEntry::open(const std::string& folder,
                                                   const std::string& name) {
  const std::string path = folder + "/" + name + ".shard";
  UniqueFd fd = open_cache_file(path, O_RDONLY);
  if (!fd) return nullptr;
  std::shared_ptr<WholeEntry> entry(new WholeEntry(std::move(fd), path));
  if (!entry->load(name)) {
    entry->remove();
    return nullptr;
  }
  mark_used(entry->fd_.get());
  return entry;
}

bool WholeEntry::load(const std::string& name) {
  const auto trailer = read_trailer(fd_.get());
  if (!trailer || name != trailer->name) return false;
  size_ = trailer->size;
  table_.resize(num_cache_blocks(size_));
  const auto bytes = std::as_writable_bytes(std::span(table_));
  return read_at(fd_.get(), bytes, table_place(size_)) && crc32c(bytes) == trailer->table_crc;
}

std::span<const std::byte> WholeEntry::read(std::uint64_t index, std::span<std::byte> block) const {
  const std::uint64_t offset = index * kCacheBlock;
  const auto wanted = block.first(std::min<std::uint64_t>(kCacheBlock, size_ - offset));
  if (!read_at(fd_.get(), wanted, offset) || crc32c(wanted) != table_[index]) return {};
  return wanted;
}

void WholeEntry::remove() const {
  if (same_file(fd_.get(), path_)) ::unlink(path_.c_str());
}

}  // namespace millrace::io::detail
