#include "decode/decoded_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "decode/detail/pixels.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/machine.h"

namespace millrace::decode {
namespace {

/// What finds a picture, in memory: node, bucket, and what malloc adds.
constexpr std::size_t kEntryBytes = 128;
constexpr std::size_t kAlignment = 64;

/// From one picture to the next: vectors read beyond the last pixel.
std::size_t place_bytes(std::size_t bytes) {
  return (bytes + detail::kPadding + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t row_bytes(const PixelView& view) {
  return static_cast<std::size_t>(view.box.width) * static_cast<std::size_t>(view.channels);
}

/// Without a name, so that nothing is left of it whatever becomes of the process.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/.millrace-decoded-XXXXXX";  // a file system that has none
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

DecodedCache::DecodedCache(DecodedCacheOptions options) : options_(std::move(options)) {
  require(options_.bytes > 0, "a cache of decoded pictures needs a size above 0");
  options_.folder.empty() ? map_memory() : open_file();
}

DecodedCache::~DecodedCache() {
  if (memory_ != nullptr) ::munmap(memory_, options_.bytes);
  if (file_ >= 0) ::close(file_);
}

// Pages take memory when they are written.
void DecodedCache::map_memory() {
  const std::uint64_t most = usable_memory();
  if (options_.bytes > most)
    throw Error(ErrorCode::kExhausted,
                fmt::format("a cache of decoded pictures of {} bytes is more than the memory that "
                            "there is, {} bytes",
                            options_.bytes, most));
  void* const memory = ::mmap(nullptr, options_.bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorCode::kExhausted,
                fmt::format("no memory for a cache of decoded pictures of {} bytes: {}",
                            options_.bytes, std::system_category().message(errno)));
  memory_ = static_cast<std::uint8_t*>(memory);
}

void DecodedCache::open_file() {
  file_ = open_unnamed(options_.folder);
  if (file_ < 0) throw_errno("make a file for decoded pictures in", options_.folder, errno);
}

// Two checksums that have nothing to do with each other; with the size, as good as a hash for
// pictures that nobody made to collide.
std::uint64_t DecodedCache::content_of(std::span<const std::byte> encoded) {
  return std::uint64_t{crc32c(encoded)} << 32 | crc32(encoded);
}

std::uint32_t DecodedCache::form_of(const std::string& description) {
  const MutexLock lock(forms_mutex_);
  const auto [form, is_new] = forms_.try_emplace(description, num_forms_);
  if (is_new) ++num_forms_;
  return form->second;
}

std::uint32_t DecodedCache::new_form() {
  const MutexLock lock(forms_mutex_);
  return num_forms_++;
}

std::size_t DecodedCache::HashKey::operator()(const Key& key) const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  const std::uint64_t other =
      key.size << 16 ^ std::uint64_t{key.form} << 4 ^ static_cast<std::uint64_t>(key.scale);
  return (key.content ^ other * kOdd) * kOdd >> 7;
}

std::optional<PixelView> DecodedCache::find(const Key& key, const Box& box,
                                            std::vector<std::uint8_t>& buffer) {
  if (is_closed_.load(std::memory_order_relaxed)) return {};
  Place place;
  {
    Part& part = part_of(key);
    const MutexLock lock(part.mutex);
    const auto found = part.places.find(key);
    if (found == part.places.end() || !found->second.is_written) return {};
    place = found->second;
  }
  const std::size_t stride =
      static_cast<std::size_t>(place.width) * static_cast<std::size_t>(place.channels);
  const std::size_t begin = place.offset + stride * static_cast<std::size_t>(box.y);
  const std::size_t size = stride * static_cast<std::size_t>(box.height);
  const std::uint8_t* pixels = memory_ == nullptr ? nullptr : memory_ + begin;
  if (pixels == nullptr) {
    std::uint8_t* const into = detail::reserve_pixels(buffer, size);
    if (!read(begin, {into, size})) return {};
    pixels = into;
  }
  return PixelView{.data = pixels,
                   .stride = stride,
                   .box = {0, box.y, place.width, box.height},
                   .channels = place.channels};
}

bool DecodedCache::has_room(std::size_t bytes) const {
  const std::size_t left = options_.bytes - used_.load(std::memory_order_relaxed);
  return !is_closed_.load(std::memory_order_relaxed) && bytes <= left &&
         place_bytes(bytes) + kEntryBytes <= left;
}

void DecodedCache::keep(const Key& key, const PixelView& whole) {
  const auto place = claim(key, whole);
  if (!place || !write(*place, whole)) return;
  Part& part = part_of(key);
  const MutexLock lock(part.mutex);
  part.places[key].is_written = true;
  pictures_.fetch_add(1, std::memory_order_relaxed);
}

/// A place for the picture, where nobody finds it yet; nullopt if there is none, or it has one.
std::optional<DecodedCache::Place> DecodedCache::claim(const Key& key, const PixelView& whole) {
  const std::size_t bytes = row_bytes(whole) * static_cast<std::size_t>(whole.box.height);
  Part& part = part_of(key);
  const MutexLock lock(part.mutex);
  if (part.places.contains(key)) return {};
  const auto offset = claim_bytes(bytes);
  if (!offset) return {};
  const Place place{.offset = *offset,
                    .width = whole.box.width,
                    .height = whole.box.height,
                    .channels = whole.channels};
  part.places.emplace(key, place);
  return place;
}

std::optional<std::size_t> DecodedCache::claim_bytes(std::size_t bytes) {
  const MutexLock lock(end_mutex_);
  if (!has_room(bytes)) return {};
  used_ += place_bytes(bytes) + kEntryBytes;
  return std::exchange(end_, end_ + place_bytes(bytes));
}

bool DecodedCache::write(const Place& place, const PixelView& whole) {
  const std::size_t row = row_bytes(whole);
  if (memory_ != nullptr) {
    for (int y = 0; y < whole.box.height; ++y)
      std::memcpy(memory_ + place.offset + row * static_cast<std::size_t>(y), whole.row(y), row);
    return true;
  }
  const bool dense = whole.stride == row;
  const std::size_t run = dense ? row * static_cast<std::size_t>(whole.box.height) : row;
  std::size_t at = place.offset;
  for (int y = 0; y < (dense ? 1 : whole.box.height); ++y) {
    const std::uint8_t* from = whole.row(y);
    for (std::size_t left = run; left > 0;) {
      const ssize_t done = ::pwrite(file_, from, left, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return give_up("written", done < 0 ? errno : ENOSPC), false;
      from += done;
      at += static_cast<std::size_t>(done);
      left -= static_cast<std::size_t>(done);
    }
  }
  return true;
}

bool DecodedCache::read(std::size_t offset, std::span<std::uint8_t> into) {
  while (!into.empty()) {
    const ssize_t done = ::pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return give_up("read", done < 0 ? errno : EIO), false;
    offset += static_cast<std::size_t>(done);
    into = into.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

void DecodedCache::give_up(const char* what, int error_number) {
  if (is_closed_.exchange(true)) return;
  options_.log.warn(
      fmt::format("decoded pictures in {} cannot be {} ({}): from here on pictures are decoded "
                  "anew in each epoch",
                  options_.folder, what, std::system_category().message(error_number)));
}

}  // namespace millrace::decode
