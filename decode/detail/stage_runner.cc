#include "decode/detail/stage_runner.h"

#include <algorithm>
#include <cstring>

#include "decode/detail/kernels.h"

namespace millrace::decode::detail {
namespace {

/// One, or as close to it as 15 bits allow.
std::int16_t whole_weight(int bits) {
  return static_cast<std::int16_t>(std::min((1 << bits), 32767));
}

std::size_t size_of(int pixels, int channels) {
  return static_cast<std::size_t>(pixels) * static_cast<std::size_t>(channels);
}

}  // namespace

Interpolation StageRunner::interpolation_of(const Stage& stage, Interpolation own) {
  return own == Interpolation::kNearest ? own : stage.interpolation.value_or(own);
}

Box StageRunner::plan(const Stage& stage, const How& how) {
  const Interpolation interpolation = interpolation_of(stage, how.interpolation);
  samples_ = stage.sampling.has_value();
  if (samples_)
    return sampler_.plan(stage, {.mirrored = how.mirrored,
                                 .mirrored_vertically = how.mirrored_vertically,
                                 .interpolation = interpolation,
                                 .fills = how.fills});
  const double divisor = how.scale;
  x_.plan({.begin = stage.source.x / divisor,
           .extent = stage.source.width / divisor,
           .size = stage.width,
           .window_begin = stage.window.x,
           .window_size = stage.window.width,
           .mirrored = how.mirrored,
           .interpolation = interpolation});
  y_.plan({.begin = stage.source.y / divisor,
           .extent = stage.source.height / divisor,
           .size = stage.height,
           .window_begin = stage.window.y,
           .window_size = stage.window.height,
           .mirrored = how.mirrored_vertically,
           .interpolation = interpolation});
  band_first_ = -1;
  return {x_.begin, y_.begin, x_.end - x_.begin, y_.end - y_.begin};
}

std::size_t StageRunner::line_bytes(int channels) const {
  return size_of(x_.lead + x_.count + x_.trail, channels);
}

// Row `y` of the input, starting at the first column in use.
const std::uint8_t* StageRunner::input_row(const PixelView& input, int y) const {
  return input.row(y - input.box.y) + size_of(x_.begin - input.box.x, input.channels);
}

/// The input row that is output row `i`. Requires: y_.copies.
int StageRunner::copied_row(int i) const { return y_.mirrored ? y_.end - 1 - i : y_.begin + i; }

// Output row `i`, still as wide as the input's columns in use.
const std::uint8_t* StageRunner::vertical(const PixelView& input, int i) {
  if (y_.copies) return input_row(input, copied_row(i));
  const auto at = static_cast<std::size_t>(i);
  const std::size_t count = size_of(x_.end - x_.begin, input.channels);
  std::uint8_t* out = reserve_pixels(blended_, count);
  blend_rows(input_row(input, y_.first[at]), input.stride,
             &y_.weights[at * static_cast<std::size_t>(y_.taps)], y_.used[at], y_.bits, out, count);
  return out;
}

void StageRunner::vertical_fine(const PixelView& input, int i, std::int16_t* out) const {
  const std::size_t count = size_of(x_.end - x_.begin, input.channels);
  if (y_.copies) {
    const std::int16_t weight = whole_weight(x_.bits);
    return blend_rows_fine(input_row(input, copied_row(i)), 0, &weight, 1, out, count);
  }
  const auto at = static_cast<std::size_t>(i);
  blend_rows_fine(input_row(input, y_.first[at]), input.stride,
                  &y_.weights[at * static_cast<std::size_t>(y_.taps)], y_.used[at], out, count);
}

void StageRunner::make_band(const PixelView& input, int first) {
  const int channels = input.channels;
  const std::size_t rows = band_rows(channels);
  const int columns = x_.end - x_.begin;
  const std::size_t width = size_of(columns, channels);
  std::int16_t* fine = reserve_pixels(fine_, width * rows);
  std::array<const std::int16_t*, kMaxBandRows> lines;
  for (std::size_t r = 0; r < rows; ++r) {
    const int i = first + static_cast<int>(r);
    lines[r] = i < y_.count ? fine + r * width : fine;
    if (i < y_.count) vertical_fine(input, i, fine + r * width);
  }
  std::int16_t* band = reserve_pixels(band_, size_of(columns, kBandLanes));
  std::uint8_t* made = reserve_pixels(resampled_band_, size_of(x_.count, kBandLanes));
  rows_to_band(lines.data(), static_cast<std::size_t>(columns), channels, band);
  resample_band(band, x_, made);
  const std::size_t stride = line_bytes(channels);
  std::uint8_t* out = reserve_pixels(lines_, stride * rows);
  if (x_.lead + x_.trail > 0) std::memset(out, 0, stride * rows);
  band_to_rows(made, static_cast<std::size_t>(x_.count), channels, out + size_of(x_.lead, channels),
               stride);
  band_first_ = first;
}

const std::uint8_t* StageRunner::resampled(const PixelView& input, int i) {
  const auto rows = static_cast<int>(band_rows(input.channels));
  if (band_first_ < 0 || i < band_first_ || i >= band_first_ + rows) make_band(input, i);
  return lines_.data() + static_cast<std::size_t>(i - band_first_) * line_bytes(input.channels);
}

const std::uint8_t* StageRunner::copied(const PixelView& input, int i) {
  const int channels = input.channels;
  const std::uint8_t* in = vertical(input, i);
  if (!x_.mirrored && x_.lead + x_.trail == 0) return in;
  std::uint8_t* line = reserve_pixels(lines_, line_bytes(channels));
  std::uint8_t* made = line + size_of(x_.lead, channels);
  std::memset(line, 0, size_of(x_.lead, channels));
  if (x_.mirrored) {
    mirror_row(in, static_cast<std::size_t>(x_.count), channels, made);
  } else {
    std::memcpy(made, in, size_of(x_.count, channels));
  }
  std::memset(made + size_of(x_.count, channels), 0, size_of(x_.trail, channels));
  return line;
}

const std::uint8_t* StageRunner::row(const PixelView& input, int y) {
  if (samples_) return sampler_.row(input, y);
  const int i = y - y_.lead;
  if (i >= 0 && i < y_.count && x_.count > 0) {
    return x_.copies ? copied(input, i) : resampled(input, i);
  }
  std::uint8_t* line = reserve_pixels(lines_, line_bytes(input.channels));
  std::memset(line, 0, line_bytes(input.channels));
  return line;
}

}  // namespace millrace::decode::detail
