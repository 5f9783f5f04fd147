#include "decode/detail/jpeg_window.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <numeric>

namespace millrace::decode::detail {
namespace {

constexpr int kBlock = 8;
constexpr std::uint8_t kMarker = 0xFF;
constexpr std::uint8_t kRestart0 = 0xD0;
constexpr std::uint8_t kHuffmanTables = 0xC4;
constexpr std::uint8_t kEndMarker = 0xD9;
constexpr std::int64_t kRestartNumbers = 8;
constexpr std::size_t kCodeLengths = 16;

// In pictures narrower than a few samples libjpeg repeats them instead of upsampling smoothly.
constexpr int kNarrow = 16;

int divided_up(int value, int divisor) { return (value + divisor - 1) / divisor; }

int rounded_up(int value, int multiple) { return divided_up(value, multiple) * multiple; }

// The picture as bands of columns. Where segments end inside of rows, a band is one column.
struct Grid {
  int column_width = 0;  // pixels
  int band_height = 0;   // pixels
  int columns = 0;
  int bands = 0;
  int band_rows = 0;
  std::int64_t band_segments = 0;
  std::int64_t num_segments = 0;
};

Grid grid_of(const ImageHeader& header, const RestartLayout& layout) {
  const int mcu_width = kBlock * layout.max_horizontal;
  const int mcu_height = kBlock * layout.max_vertical;
  const int mcus = divided_up(header.width, mcu_width);
  const int rows = divided_up(header.height, mcu_height);
  const int interval = layout.interval;
  const bool divides = mcus % interval == 0;
  const int band_rows = interval / std::gcd(interval, mcus);
  return {.column_width = mcu_width * (divides ? interval : mcus),
          .band_height = mcu_height * std::min(band_rows, rows),
          .columns = divides ? mcus / interval : 1,
          .bands = divided_up(rows, band_rows),
          .band_rows = band_rows,
          .band_segments = std::int64_t{band_rows} * mcus / interval,
          .num_segments = (std::int64_t{rows} * mcus + interval - 1) / interval};
}

// The columns and bands of a window.
struct Part {
  int left = 0;
  int right = 0;
  int top = 0;
  int bottom = 0;

  int columns() const { return right - left; }
  std::int64_t area() const { return std::int64_t{columns()} * (bottom - top); }
};

// Smooth upsampling takes one sample of chroma on either side into account, and writes as many rows
// at a time as an MCU has of them.
Part part_of(const Box& box, int scale, const RestartLayout& layout, const Grid& grid) {
  const int beside = layout.max_horizontal > 1 ? 1 : 0;
  const int above = layout.max_vertical > 1 ? 1 : 0;
  const int right = (box.x + box.width + beside) * scale;
  const int bottom = (rounded_up(box.y + box.height, layout.max_vertical) + above) * scale;
  return {.left = std::max(box.x - beside, 0) * scale / grid.column_width,
          .right = std::min(divided_up(right, grid.column_width), grid.columns),
          .top = std::max(box.y - above, 0) * scale / grid.band_height,
          .bottom = std::min(divided_up(bottom, grid.band_height), grid.bands)};
}

void widen(Part& part, const Grid& grid, int width, int scale) {
  const auto is_narrow = [&] {
    const int right = std::min(part.right * grid.column_width, width);
    return right - part.left * grid.column_width < kNarrow * scale;
  };
  while (part.left > 0 && is_narrow()) --part.left;
  while (part.right < grid.columns && is_narrow()) ++part.right;
}

// Whether smooth upsampling makes the box's last row another one than it is with rows below it.
bool needs_last_row(const Box& box, int scale, const ImageHeader& header,
                    const RestartLayout& layout) {
  const int end = rounded_up(box.y + box.height, layout.max_vertical);
  return layout.max_vertical > 1 && end >= divided_up(header.height, scale);
}

Box covered(const Part& part, const Grid& grid, const ImageHeader& header, bool has_end_row) {
  const int left = part.left * grid.column_width;
  const int top = part.top * grid.band_height;
  const int right = std::min(part.right * grid.column_width, header.width);
  // Above the row without data, the last blocks are whole.
  const int bottom = part.bottom * grid.band_height;
  return {.x = left,
          .y = top,
          .width = right - left,
          .height = (has_end_row ? bottom : std::min(bottom, header.height)) - top};
}

void put16(std::uint8_t* at, int value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

void copy_headers(const std::uint8_t* data, const RestartLayout& layout,
                  const RestartWindow& window, std::vector<std::uint8_t>& out) {
  out.assign(data, data + layout.scan_at);
  std::uint8_t* size = out.data() + layout.size_at;
  put16(size, window.file_height());
  put16(size + 2, window.box.width);
  // The sampling factors of a single component mean nothing, but libjpeg decodes as many rows of
  // blocks together as they say, and the row without data must be decoded alone.
  if (layout.components == 1) size[6] = 0x11;
}

// Whether an encoder may have given a code to `symbol`: the bits of a difference of DC, or zeros
// and the bits of a coefficient behind them (T.81 F.1.2).
bool is_possible(bool ac, int symbol) {
  const int bits = symbol & 15;
  return ac ? bits <= 10 && (bits > 0 || symbol == 0 || symbol == 0xF0) : symbol <= 11;
}

// Whether no symbol of the tables in a DHT segment has two codes or is impossible. In few segments
// damage to a table may leave everything in place but the values.
bool has_sound_codes(std::span<const std::uint8_t> body) {
  while (body.size() > kCodeLengths) {
    const bool ac = body[0] >> 4 != 0;
    const auto counts = body.subspan(1, kCodeLengths);
    const auto symbols = body.subspan(1 + kCodeLengths);
    const auto count = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0));
    if (count > symbols.size()) return false;
    std::bitset<256> met;
    for (const std::uint8_t symbol : symbols.first(count)) {
      if (met[symbol] || !is_possible(ac, symbol)) return false;
      met.set(symbol);
    }
    body = symbols.subspan(count);
  }
  return body.empty();
}

// Requires: read_jpeg_header() has gone through them. What is between segments, libjpeg warns of.
bool has_sound_codes(const std::uint8_t* data, const RestartLayout& layout) {
  for (std::size_t at = 2; at + 4 <= layout.scan_at;) {
    if (data[at] != kMarker) return false;
    const std::size_t length = data[at + 2] * std::size_t{256} + data[at + 3];
    const std::size_t end = at + 2 + length;
    if (length < 2 || end > layout.scan_at) return false;
    if (data[at + 1] == kHuffmanTables && !has_sound_codes({data + at + 4, data + end}))
      return false;
    at = end;
  }
  return true;
}

// The file's segments, of which the window's are taken.
class SegmentCopy {
 public:
  SegmentCopy(const RestartWindow& window, std::vector<std::uint8_t>& out)
      : window_(window), out_(out) {}

  void put(const std::uint8_t* begin, const std::uint8_t* end) {
    if (is_wanted()) {
      if (written_ > 0) put_marker(!window_.has_end_row && written_ + 1 == window_.size());
      out_.insert(out_.end(), begin, end);
      ++written_;
    }
    ++met_;
    if (++in_band_ < window_.band_segments) return;
    in_band_ = 0;
    ++band_;
  }

  std::int64_t met() const { return met_; }
  bool is_next(std::uint8_t marker) const { return marker == kRestart0 + met_ % kRestartNumbers; }

  void finish() {
    if (window_.has_end_row) put_marker(true);
    out_.push_back(kMarker);
    out_.push_back(kEndMarker);
  }

 private:
  bool is_wanted() const {
    return band_ >= window_.first_band && band_ < window_.end_band &&
           in_band_ >= window_.first_in_band && in_band_ < window_.end_in_band;
  }

  void put_marker(bool last) {
    if (last && window_.has_filler) out_.resize(out_.size() + kFillerBytes);
    out_.push_back(kMarker);
    out_.push_back(static_cast<std::uint8_t>(kRestart0 + (written_ - 1) % kRestartNumbers));
  }

  const RestartWindow& window_;
  std::vector<std::uint8_t>& out_;
  std::int64_t met_ = 0;
  std::int64_t band_ = 0;
  std::int64_t in_band_ = 0;
  std::int64_t written_ = 0;
};

}  // namespace

std::optional<RestartWindow> choose_window(const ImageHeader& header, const PixelRequest& request) {
  const auto layout = header.kept<RestartLayout>();
  if (layout.interval == 0) return {};
  const Grid grid = grid_of(header, layout);
  Part part = part_of(request.box, request.scale, layout, grid);
  widen(part, grid, header.width, request.scale);
  const bool last_row = needs_last_row(request.box, request.scale, header, layout);
  const bool in_part = part.columns() < grid.columns;
  if (in_part && last_row) part.right = std::min(part.right + 1, grid.columns);
  if (10 * part.area() > 9 * std::int64_t{part.bottom} * grid.columns) return {};
  const bool whole = grid.columns == 1;
  // The end of the last segment is looked at in a row or a column behind it, as it is in the whole
  // picture: there is none behind the picture's last. Where a segment is several rows, libjpeg
  // stops at the same row of either.
  const bool one_row = grid.band_rows == 1;
  if (!one_row && layout.block_rows > 1) return {};
  const bool has_end_row = one_row && !last_row;
  return RestartWindow{.box = covered(part, grid, header, has_end_row),
                       .first_band = part.top,
                       .end_band = part.bottom,
                       .first_in_band = whole ? 0 : part.left,
                       .end_in_band = whole ? grid.band_segments : part.right,
                       .band_segments = grid.band_segments,
                       .num_segments = grid.num_segments,
                       .has_filler = one_row,
                       .has_end_row = has_end_row};
}

bool copy_window(std::span<const std::byte> data, const ImageHeader& header,
                 const RestartWindow& window, std::vector<std::uint8_t>& out) {
  const auto layout = header.kept<RestartLayout>();
  const auto* begin = reinterpret_cast<const std::uint8_t*>(data.data());
  const std::uint8_t* const end = begin + data.size();
  if (!has_sound_codes(begin, layout)) return false;
  copy_headers(begin, layout, window, out);
  SegmentCopy segments(window, out);
  begin += layout.scan_at;
  for (const std::uint8_t* at = begin; at + 1 < end;) {
    const auto left = static_cast<std::size_t>(end - at - 1);
    const auto* found = static_cast<const std::uint8_t*>(std::memchr(at, kMarker, left));
    if (found == nullptr) return false;
    const std::uint8_t code = found[1];
    at = found + 2;
    if (code == 0) continue;  // a byte of data that is 0xFF
    if (code != kEndMarker && !segments.is_next(code)) return false;
    segments.put(begin, found);
    begin = at;
    if (code != kEndMarker) continue;
    if (segments.met() != window.num_segments) return false;
    segments.finish();
    return true;
  }
  return false;
}

}  // namespace millrace::decode::detail
