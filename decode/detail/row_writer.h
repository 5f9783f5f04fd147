// RowWriter: writes rows of 8-bit pixels to the slot, in the requested dtype and layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/array.h"
#include "decode/detail/kernels.h"
#include "decode/detail/pixels.h"
#include "decode/transform_step.h"

namespace millrace::decode::detail {

class RowWriter {
 public:
  struct Format {
    int width = 0;
    int height = 0;
    int channels = 0;
    DType dtype = DType::kUInt8;
    Layout layout = Layout::kHWC;
  };

  /// If `scale` is null, floats are level / 255. Integers are never scaled.
  RowWriter(const Format& format, const ScaleStep* scale);

  const Format& format() const { return format_; }
  /// Writes row `y` of the image that begins at `slot`; `planes` is scratch.
  void write(const std::uint8_t* row, int y, std::byte* slot,
             std::vector<std::uint8_t>& planes) const;

 private:
  void write_values(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                    std::byte* out) const;

  Format format_;
  std::vector<ScalePattern> patterns_;  ///< one for HWC, one per channel for CHW
};

}  // namespace millrace::decode::detail
