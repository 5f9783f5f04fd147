// Limits: what an encoded field may claim before a decoder believes it. Defaults are FAULTS.md's.
#pragma once

#include <cstdint>

namespace millrace::decode {

struct Limits {
  /// Height times width.
  std::int64_t max_pixels = 64 * 1024 * 1024;
  /// Scans of a progressive JPEG.
  int max_scans = 100;
};

/// Throws: Exhausted when height × width is above the limit.
void check_pixels(std::int64_t width, std::int64_t height, const Limits& limits);

}  // namespace millrace::decode
