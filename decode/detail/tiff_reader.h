// TiffReader: a TIFF file in memory, opened by libtiff, whose messages become Errors.
//
// Source: TIFF 6.0; libtiff 4.5's tiffio.h.
#pragma once

#include <tiffio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/base/error.h"

namespace millrace::decode::detail {

/// What libtiff reads from, and the first thing it complained of.
struct TiffInput {
  const std::uint8_t* data = nullptr;
  std::uint64_t size = 0;
  std::uint64_t at = 0;
  std::array<char, 200> message = {};
  bool failed = false;
};

/// One file that is being read. Threads: one at a time.
class TiffReader {
 public:
  /// `most_bytes` bounds each allocation of libtiff. Throws: as fail().
  TiffReader(std::span<const std::byte> data, std::uint64_t most_bytes);
  TiffReader(const TiffReader&) = delete;
  TiffReader& operator=(const TiffReader&) = delete;

  TIFF* tiff() const { return tiff_.get(); }

  /// A tag's number, or its default.
  template <typename Number>
  Number tag(std::uint32_t which) const {
    Number value = 0;
    TIFFGetFieldDefaulted(tiff(), which, &value);
    return value;
  }

  /// Throws what libtiff complained of first: Exhausted, Unsupported or Corrupt; std::bad_alloc.
  [[noreturn]] void fail() const;

  /// What libtiff cannot read is not damaged: its and libjpeg's words for it.
  static ErrorCode code_of(const std::string& said);

 private:
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  TiffInput input_;
  std::unique_ptr<TIFF, Close> tiff_;
};

}  // namespace millrace::decode::detail
