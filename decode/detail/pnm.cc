#include "decode/detail/pnm.h"

#include <algorithm>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kMaxNumber = 1 << 30;

bool is_space(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(std::uint8_t c) { return c >= '0' && c <= '9'; }

// A cursor over the numbers of a header or of plain pixels; '#' starts a comment up to the newline.
class Tokens {
 public:
  Tokens(std::span<const std::byte> data, std::size_t at)
      : data_(reinterpret_cast<const std::uint8_t*>(data.data())), size_(data.size()), at_(at) {}

  int number() {
    skip_space();
    if (at_ == size_) throw cut();
    if (!is_digit(data_[at_])) throw Error(ErrorCode::kCorrupt, "PNM: a number is missing");
    int value = 0;
    for (; at_ < size_ && is_digit(data_[at_]); ++at_) {
      if (value > kMaxNumber / 10) throw Error(ErrorCode::kCorrupt, "PNM: a number is too large");
      value = value * 10 + (data_[at_] - '0');
    }
    return value;
  }

  // Plain bitmaps may write their bits without space between.
  int bit() {
    skip_space();
    if (at_ == size_) throw cut();
    const int value = data_[at_++] - '0';
    if (value != 0 && value != 1) throw Error(ErrorCode::kCorrupt, "PBM: a bit is not 0 or 1");
    return value;
  }

  // Exactly one white space stands between the header and binary pixels.
  std::size_t after_space() {
    if (at_ == size_) throw cut();
    if (!is_space(data_[at_])) throw Error(ErrorCode::kCorrupt, "PNM: no space after the header");
    return at_ + 1;
  }

  static Error cut() { return {ErrorCode::kTruncated, "PNM image is cut"}; }

 private:
  void skip_space() {
    for (; at_ < size_; ++at_) {
      if (data_[at_] == '#') {
        while (at_ < size_ && data_[at_] != '\n') ++at_;
        if (at_ == size_) return;
      } else if (!is_space(data_[at_])) {
        return;
      }
    }
  }

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_;
};

std::size_t row_values(const PnmHeader& header) {
  return static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.channels);
}

// Bytes that the pixels take at least: a plain value takes one digit and all but the last a space.
std::size_t pixel_bytes(const PnmHeader& header) {
  const auto rows = static_cast<std::size_t>(header.height);
  if (header.plain)
    return rows * row_values(header) * (header.bitmap ? 1 : 2) - (header.bitmap ? 0 : 1);
  if (header.bitmap) return rows * ((row_values(header) + 7) / 8);
  return rows * row_values(header) * (header.max_value > 255 ? 2 : 1);
}

std::uint8_t scaled(int value, int max_value) {
  return static_cast<std::uint8_t>((value * 255 + max_value / 2) / max_value);
}

void read_plain(std::span<const std::byte> data, const PnmHeader& header, std::uint8_t* out) {
  Tokens tokens(data, header.offset);
  const std::size_t count = row_values(header) * static_cast<std::size_t>(header.height);
  for (std::size_t i = 0; i < count; ++i) {
    const int value = header.bitmap ? 1 - tokens.bit() : tokens.number();
    if (value > header.max_value) throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
    out[i] = scaled(value, header.max_value);
  }
}

void read_bits(const std::uint8_t* in, const PnmHeader& header, std::uint8_t* out) {
  const std::size_t width = row_values(header);
  for (int y = 0; y < header.height; ++y, in += (width + 7) / 8, out += width) {
    for (std::size_t x = 0; x < width; ++x) {
      out[x] = (in[x / 8] >> (7 - x % 8)) & 1 ? 0 : 255;
    }
  }
}

void read_binary(const std::uint8_t* in, const PnmHeader& header, std::uint8_t* out) {
  const std::size_t count = row_values(header) * static_cast<std::size_t>(header.height);
  const bool wide = header.max_value > 255;
  for (std::size_t i = 0; i < count; ++i) {
    const int value = wide ? in[2 * i] * 256 + in[2 * i + 1] : in[i];
    if (value > header.max_value) throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
    out[i] = scaled(value, header.max_value);
  }
}

// The numbers as they stand, `bytes` each.
void read_numbers(std::span<const std::byte> data, const PnmHeader& header, std::size_t bytes,
                  std::uint8_t* out) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(data.data()) + header.offset;
  const std::size_t width = row_values(header);
  Tokens tokens(data, header.offset);
  for (int y = 0; y < header.height; ++y) {
    for (std::size_t x = 0; x < width; ++x, out += bytes) {
      int value = 0;
      if (header.plain) {
        value = header.bitmap ? tokens.bit() : tokens.number();
      } else if (header.bitmap) {
        value = (in[x / 8] >> (7 - x % 8)) & 1;
      } else {
        value = bytes == 2 ? in[2 * x] * 256 + in[2 * x + 1] : in[x];
      }
      if (value > header.max_value)
        throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
      if (bytes == 2) out[0] = static_cast<std::uint8_t>(value >> 8);
      out[bytes - 1] = static_cast<std::uint8_t>(value);
    }
    in += header.bitmap ? (width + 7) / 8 : width * bytes;
  }
}

}  // namespace

PnmHeader read_pnm_header(std::span<const std::byte> data, const Limits& limits, bool numbers) {
  if (data.size() < 3) throw Tokens::cut();
  const int kind = static_cast<int>(data[1]) - '0';
  PnmHeader header{.plain = kind <= 3, .bitmap = kind == 1 || kind == 4};
  header.channels = kind == 3 || kind == 6 ? 3 : 1;
  header.numbers = numbers && header.channels == 1;
  Tokens tokens(data, 2);
  header.width = tokens.number();
  header.height = tokens.number();
  header.max_value = header.bitmap ? 1 : tokens.number();
  if (header.width == 0 || header.height == 0) throw Error(ErrorCode::kCorrupt, "PNM of no size");
  if (header.max_value < 1 || header.max_value > 65535) {
    throw Error(ErrorCode::kCorrupt, "PNM: maxval is not in 1 to 65535");
  }
  check_pixels(header.width, header.height, limits);
  header.offset = tokens.after_space();
  if (data.size() - header.offset < pixel_bytes(header)) throw Tokens::cut();
  return header;
}

PixelView read_pnm(std::span<const std::byte> data, const PnmHeader& header,
                   std::vector<std::uint8_t>& buffer) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(data.data()) + header.offset;
  PixelView view{.data = in,
                 .stride = row_values(header),
                 .box = {0, 0, header.width, header.height},
                 .channels = header.channels};
  if (header.max_value == 255 && !header.plain) return view;
  if (header.numbers) {
    view.channels = header.max_value > 255 ? 2 : 1;
    view.stride *= static_cast<std::size_t>(view.channels);
  }
  std::uint8_t* out = reserve_pixels(buffer, view.stride * static_cast<std::size_t>(header.height));
  if (header.numbers) {
    read_numbers(data, header, static_cast<std::size_t>(view.channels), out);
  } else if (header.plain) {
    read_plain(data, header, out);
  } else if (header.bitmap) {
    read_bits(in, header, out);
  } else {
    read_binary(in, header, out);
  }
  view.data = out;
  return view;
}

}  // namespace millrace::decode::detail
