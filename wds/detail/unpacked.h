// Unpacked: the base of all unpacking sources: counts packed and unpacked bytes and limits their
// ratio.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "wds/detail/tape.h"
#include "wds/detail/unpack.h"

namespace millrace::wds::detail {

class Unpacked : public io::ByteSource {
 public:
  Unpacked(std::unique_ptr<Tape> packed, const UnpackLimits& limits)
      : packed_(std::move(packed)), limits_(limits) {}

  std::size_t read(std::span<std::byte> into) final;
  std::uint64_t position() const final { return position_; }
  std::optional<std::uint64_t> size() const final { return {}; }
  const std::string& url() const final { return packed_->source().url(); }

  std::optional<std::uint64_t> packed_bytes() const;
  std::optional<std::uint64_t> most_bytes() const;
  virtual std::uint64_t unguarded_frames() const { return 0; }

 protected:
  /// Produces the next bytes, at least one; returns 0 at the end. Throws: Truncated, Corrupt,
  /// Exhausted.
  virtual std::size_t unpack(std::span<std::byte> into) = 0;

  /// The next packed bytes, without consuming them; empty at their end.
  std::span<const std::byte> peek_packed() const;
  void consume_packed(std::size_t size) { packed_->consume(size); }
  const UnpackLimits& limits() const { return limits_; }
  /// Throws: Error with `code`; without a reason for damaged data.
  [[noreturn]] void fail(ErrorCode code, const char* reason) const;

 private:
  void check_expansion() const;

  std::unique_ptr<Tape> packed_;
  UnpackLimits limits_;
  std::uint64_t position_ = 0;
  bool begun_ = false;
  bool ended_ = false;
};

/// gzip with one or more members; zlib checks the CRC-32 and length at the end of each.
std::unique_ptr<Unpacked> unpack_gzip(std::unique_ptr<Tape> packed, const UnpackLimits& limits);
/// bzip2, xz and zstd, by libarchive's filters.
std::unique_ptr<Unpacked> unpack_by_libarchive(std::unique_ptr<Tape> packed,
                                               const UnpackLimits& limits);

}  // namespace millrace::wds::detail
