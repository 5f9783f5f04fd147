#include "wds/detail/unpack.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/unpacked.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} * 1024;
constexpr std::size_t kReadBytes = std::size_t{256} * 1024;
constexpr std::uint64_t kFreeBytes = std::uint64_t{64} * 1024 * 1024;

constexpr std::string_view kGzip("\x1f\x8b", 2);
constexpr std::string_view kZstd("\x28\xb5\x2f\xfd", 4);
constexpr std::array<std::string_view, 4> kMagics = {kGzip, std::string_view("BZh", 3),
                                                     std::string_view("\xfd"
                                                                      "7zXZ\0",
                                                                      6),
                                                     kZstd};

// Recognised, so that they are not taken for damage.
struct Foreign {
  std::string_view name;
  std::string_view magic;
};
constexpr std::array<Foreign, 4> kForeign = {{{"lz4", "\x04\x22\x4d\x18"},
                                              {"lzip", "LZIP\x01"},
                                              {"lzop", "\x89LZO"},
                                              {"compress", "\x1f\x9d"}}};

std::string_view start_of(Tape& packed) {
  const auto bytes = packed.peek(6);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// RFC 8878, 3.1.2: frames of arbitrary bytes that a decoder skips; pzstd begins with one.
bool starts_with_skippable(Tape& packed) {
  const std::string_view start = start_of(packed);
  return start.size() >= 4 && (static_cast<unsigned char>(start[0]) & 0xF0U) == 0x50U &&
         start.substr(1, 3) == "\x2a\x4d\x18";
}

// libarchive 3.6 recognises zstd only by its first frame, so leading skippable frames are removed.
void skip_skippable(Tape& packed) {
  constexpr std::size_t kHeaderBytes = 8;
  while (starts_with_skippable(packed)) {
    const auto header = packed.peek(kHeaderBytes);
    if (header.size() < kHeaderBytes) break;
    std::uint64_t size = 0;
    for (std::size_t i = kHeaderBytes; i-- > 4;)
      size = size << 8U | std::to_integer<std::uint64_t>(header[i]);
    packed.skip(kHeaderBytes + size);
  }
}

void refuse_foreign(Tape& packed) {
  for (const auto& [name, magic] : kForeign) {
    if (start_of(packed).starts_with(magic))
      throw Error(ErrorCode::kUnsupported,
                  "a shard packed by " + std::string(name) + "; gzip, bzip2, xz and zstd are read",
                  {.offset = 0});
  }
}

// Not when the source is made, but at its first read: a reader must be whole before it can fail.
void begin(Tape& packed) {
  const bool skips = starts_with_skippable(packed);
  skip_skippable(packed);
  refuse_foreign(packed);
  if (!skips || start_of(packed).starts_with(kZstd)) return;
  const bool cut = packed.peek(4).size() < 4;
  throw Error(cut ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
              "unpacking: skippable frames without zstd data behind them",
              {.offset = packed.position()});
}

}  // namespace

// In pieces, so that the ratio is checked before much has been unpacked.
std::size_t Unpacked::read(std::span<std::byte> into) {
  if (ended_ || into.empty()) return 0;
  if (!std::exchange(begun_, true)) begin(*packed_);
  const std::size_t got = unpack(into.first(std::min(into.size(), kReadBytes)));
  ended_ = got == 0;
  position_ += got;
  check_expansion();
  return got;
}

std::optional<std::uint64_t> Unpacked::packed_bytes() const {
  if (!packed_->peek(1).empty()) return {};
  return packed_->position();
}

std::optional<std::uint64_t> Unpacked::most_bytes() const {
  const auto size = packed_->source().size();
  if (!size) return {};
  return std::max(kFreeBytes, *size * limits_.max_expansion);
}

std::span<const std::byte> Unpacked::peek_packed() const {
  if (packed_->peek(1).empty()) return {};
  return packed_->buffered(kChunkBytes);
}

void Unpacked::fail(ErrorCode code, const char* reason) const {
  throw Error(code, std::string("unpacking: ") + (reason == nullptr ? "damaged data" : reason),
              {.offset = position_});
}

void Unpacked::check_expansion() const {
  if (position_ <= kFreeBytes || position_ / limits_.max_expansion <= packed_->position()) return;
  throw Error(ErrorCode::kExhausted,
              "unpacks to more than " + std::to_string(limits_.max_expansion) + " times its size",
              {.offset = position_});
}

bool is_compressed(Tape& packed) {
  if (starts_with_skippable(packed)) return true;
  const std::string_view start = start_of(packed);
  const auto matches = [start](std::string_view magic) { return start.starts_with(magic); };
  return std::ranges::any_of(kMagics, matches) ||
         std::ranges::any_of(kForeign, matches, &Foreign::magic);
}

std::unique_ptr<io::ByteSource> unpack(std::unique_ptr<Tape> packed, const UnpackLimits& limits) {
  const bool gzip = start_of(*packed).starts_with(kGzip);
  return gzip ? unpack_gzip(std::move(packed), limits)
              : unpack_by_libarchive(std::move(packed), limits);
}

std::uint64_t unguarded_frames(const io::ByteSource& unpacked) {
  return static_cast<const Unpacked&>(unpacked).unguarded_frames();
}

std::optional<std::uint64_t> packed_bytes(const io::ByteSource& unpacked) {
  return static_cast<const Unpacked&>(unpacked).packed_bytes();
}

std::optional<std::uint64_t> most_bytes(const io::ByteSource& unpacked) {
  return static_cast<const Unpacked&>(unpacked).most_bytes();
}

}  // namespace millrace::wds::detail
