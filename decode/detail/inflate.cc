#include "decode/detail/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr std::size_t kFirstChunk = 64 << 10;
constexpr std::size_t kRatioCounts = 64 << 20;
constexpr int kWindowBits = 15;

class Inflater {
 public:
  Inflater(std::span<const std::byte> packed, Packing packing) : packed_(packed) {
    const int bits = packing == Packing::kGzip ? kWindowBits + 16 : -kWindowBits;
    if (inflateInit2(&stream_, bits) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool input_left() const { return at_ < packed_.size(); }

  /// Unpacks into `out` and returns how many bytes; sets `ended` at the end of a member.
  std::size_t step(std::span<std::byte> out, bool& ended) {
    const std::size_t fed = std::min<std::size_t>(packed_.size() - at_, kMaxStep);
    // zlib only reads its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data() + at_));
    stream_.avail_in = static_cast<uInt>(fed);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), kMaxStep));
    const std::size_t room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    at_ += fed - stream_.avail_in;
    ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR) throw Error(ErrorCode::kTruncated, "packed data is cut");
    if (result != Z_OK && !ended) throw Error(ErrorCode::kCorrupt, "packed data is damaged");
    return room - stream_.avail_out;
  }

  void next_member() { inflateReset(&stream_); }

 private:
  static constexpr std::size_t kMaxStep = 1 << 30;

  std::span<const std::byte> packed_;
  std::size_t at_ = 0;
  z_stream stream_ = {};
};

void check_unpacked(std::size_t unpacked, std::size_t packed, const Limits& limits) {
  const auto cap = static_cast<std::size_t>(limits.max_unpacked_bytes);
  if (unpacked > cap) {
    throw Error(ErrorCode::kExhausted, fmt::format("packed data holds more than {} bytes", cap));
  }
  if (unpacked > kRatioCounts && unpacked / static_cast<std::size_t>(limits.max_ratio) > packed) {
    throw Error(ErrorCode::kExhausted,
                fmt::format("packed data grows more than {}:1", limits.max_ratio));
  }
}

}  // namespace

std::vector<std::byte> inflate_all(std::span<const std::byte> packed, Packing packing,
                                   const Limits& limits) {
  Inflater inflater(packed, packing);
  std::vector<std::byte> out;
  std::size_t size = 0;
  for (bool ended = false;;) {
    if (size == out.size()) out.resize(std::max(kFirstChunk, out.size() * 2));
    size += inflater.step(std::span(out).subspan(size), ended);
    check_unpacked(size, packed.size(), limits);
    if (!ended) continue;
    if (packing == Packing::kDeflate || !inflater.input_left()) break;
    inflater.next_member();
  }
  out.resize(size);
  return out;
}

}  // namespace millrace::decode::detail
