// gzip by zlib: libarchive reads the trailer but checks neither checksum nor length.
//
// Source: RFC 1952.
#include <zlib.h>

#include <algorithm>
#include <new>

#include "io/base/error.h"
#include "wds/detail/unpacked.h"

namespace millrace::wds::detail {
namespace {

constexpr int kGzipOnly = 15 + 16;  // inflateInit2's windowBits for a window of 32 KiB and a header
constexpr std::byte kGzipMagic{0x1f};

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  struct Step {
    int result = Z_OK;
    std::size_t taken = 0;
    std::size_t given = 0;
  };

  Step run(std::span<const std::byte> packed, std::span<std::byte> into) {
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();  // not damage in the file
    return {result, packed.size() - stream_.avail_in, into.size() - stream_.avail_out};
  }
  void start_member() { inflateReset(&stream_); }
  const char* message() const { return stream_.msg; }

 private:
  z_stream stream_{};
};

class Gunzipped final : public Unpacked {
 public:
  using Unpacked::Unpacked;

 private:
  std::size_t unpack(std::span<std::byte> into) override {
    for (;;) {
      if (between_members_ && !next_member()) return 0;
      const auto packed = peek_packed();
      const auto step = inflater_.run(packed, into);
      consume_packed(step.taken);
      between_members_ = step.result == Z_STREAM_END;
      // Z_BUF_ERROR: no progress was possible, for lack of packed bytes.
      const bool starved = step.result == Z_BUF_ERROR && packed.empty();
      if (starved) fail(ErrorCode::kTruncated, "gzip data ends too early");
      if (step.result != Z_OK && !between_members_ && step.result != Z_BUF_ERROR) damaged();
      if (step.given > 0) return step.given;
    }
  }

  /// Returns false at the end; zeros may follow the last member, as tapes leave them.
  bool next_member() {
    for (auto packed = peek_packed(); !packed.empty(); packed = peek_packed()) {
      if (packed.front() == kGzipMagic) {
        inflater_.start_member();
        return true;
      }
      const auto other = std::find_if(packed.begin(), packed.end(),
                                      [](std::byte byte) { return byte != std::byte{0}; });
      if (other == packed.begin()) damaged("data after the last gzip member");
      consume_packed(static_cast<std::size_t>(other - packed.begin()));
      if (other != packed.end()) damaged("data after the last gzip member");
    }
    return false;
  }

  [[noreturn]] void damaged(const char* reason = nullptr) const {
    if (reason == nullptr) reason = inflater_.message();
    throw Error(ErrorCode::kCorrupt,
                std::string("unpacking: ") + (reason == nullptr ? "damaged gzip data" : reason),
                {.offset = position()});
  }

  Inflater inflater_;
  bool between_members_ = false;
};

}  // namespace

std::unique_ptr<Unpacked> unpack_gzip(std::unique_ptr<Tape> packed, const UnpackLimits& limits) {
  return std::make_unique<Gunzipped>(std::move(packed), limits);
}

}  // namespace millrace::wds::detail
