// Limits: upper bounds for what an encoded field may claim.
#pragma once

#include <cstdint>

namespace millrace::decode {

struct Limits {
  /// Height times width.
  std::int64_t max_pixels = std::int64_t{64} * 1024 * 1024;
  /// Scans of a progressive JPEG.
  int max_scans = 100;
  /// Bytes of an unpacked gzip field or npz member.
  std::int64_t max_unpacked_bytes = std::int64_t{1} << 30;
  /// Maximum ratio of unpacked to packed bytes, for results over 64 MiB.
  std::int64_t max_ratio = 100;
};

/// Throws: Exhausted if height × width exceeds the limit.
void check_pixels(std::int64_t width, std::int64_t height, const Limits& limits);

}  // namespace millrace::decode
