#include "decode/detail/stage_runner.h"

#include <cstring>

#include "decode/detail/kernels.h"

namespace millrace::decode::detail {
namespace {

std::size_t size_of(int pixels, int channels) {
  return static_cast<std::size_t>(pixels) * static_cast<std::size_t>(channels);
}

}  // namespace

Box StageRunner::plan(const Stage& stage, int scale, bool mirrored) {
  const double divisor = scale;
  x_.plan({.begin = stage.source.x / divisor,
           .extent = stage.source.width / divisor,
           .size = stage.width,
           .window_begin = stage.window.x,
           .window_size = stage.window.width,
           .mirrored = mirrored});
  y_.plan({.begin = stage.source.y / divisor,
           .extent = stage.source.height / divisor,
           .size = stage.height,
           .window_begin = stage.window.y,
           .window_size = stage.window.height});
  return {x_.begin, y_.begin, x_.end - x_.begin, y_.end - y_.begin};
}

const std::uint8_t* StageRunner::vertical(const PixelView& input, int i) {
  const std::size_t left = size_of(x_.begin - input.box.x, input.channels);
  const std::size_t count = size_of(x_.end - x_.begin, input.channels);
  if (y_.copies) {
    const std::uint8_t* in = input.row(y_.begin + i - input.box.y) + left;
    if (x_.copies) return in;
    // Resampling reads beyond the row's end, where the input may end as well.
    return static_cast<const std::uint8_t*>(
        std::memcpy(reserve_pixels(blended_, count), in, count));
  }
  const auto at = static_cast<std::size_t>(i);
  std::uint8_t* out = reserve_pixels(blended_, count);
  blend_rows(input.row(y_.first[at] - input.box.y) + left, input.stride,
             &y_.weights[at * static_cast<std::size_t>(y_.taps)], y_.used[at], out, count);
  return out;
}

void StageRunner::horizontal(const std::uint8_t* in, std::uint8_t* out, int channels) const {
  if (!x_.copies) {
    resample_row(in, x_, channels, out);
  } else if (x_.mirrored) {
    mirror_row(in, static_cast<std::size_t>(x_.count), channels, out);
  } else {
    std::memcpy(out, in, size_of(x_.count, channels));
  }
}

const std::uint8_t* StageRunner::row(const PixelView& input, int y) {
  const int channels = input.channels;
  const std::size_t lead = size_of(x_.lead, channels);
  const std::size_t made = size_of(x_.count, channels);
  const std::size_t trail = size_of(x_.trail, channels);
  std::uint8_t* line = reserve_pixels(line_, lead + made + trail);
  const int i = y - y_.lead;
  if (i < 0 || i >= y_.count || made == 0) {
    std::memset(line, 0, lead + made + trail);
    return line;
  }
  const std::uint8_t* in = vertical(input, i);
  if (x_.copies && !x_.mirrored && lead + trail == 0) return in;
  std::memset(line, 0, lead);
  horizontal(in, line + lead, channels);
  std::memset(line + lead + made, 0, trail);
  return line;
}

}  // namespace millrace::decode::detail
