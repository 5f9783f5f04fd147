// PPM, PGM and PBM: the header, and the pixels, which are used in place if they are already 8-bit.
//
// Source: the netpbm manual pages ppm(5), pgm(5), pbm(5).
#include <algorithm>
#include <string_view>

#include "decode/detail/codecs.h"
#include "decode/detail/pixels.h"
#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kMaxNumber = 1 << 30;

// How the pixels are stored.
struct Form {
  std::size_t offset = 0;  // byte offset byte offset of the first pixel
  std::size_t rows = 0;
  std::size_t row_values = 0;  // width times channels
  int max_value = 255;         // 1 for PBM, where 1 is black
  bool plain = false;          // numbers as text
  bool bitmap = false;
};

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

  // Plain bitmaps may omit the space between bits.
  int bit() {
    skip_space();
    if (at_ == size_) throw cut();
    const int value = data_[at_++] - '0';
    if (value != 0 && value != 1) throw Error(ErrorCode::kCorrupt, "PBM: a bit is not 0 or 1");
    return value;
  }

  // Exactly one white-space character separates the header from binary pixels.
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

// Minimum size of the pixels in bytes: a plain value takes at least a digit and, except the last, a
// space.
std::size_t pixel_bytes(const Form& form) {
  if (form.plain)
    return form.rows * form.row_values * (form.bitmap ? 1 : 2) - (form.bitmap ? 0 : 1);
  if (form.bitmap) return form.rows * ((form.row_values + 7) / 8);
  return form.rows * form.row_values * (form.max_value > 255 ? 2 : 1);
}

std::uint8_t scaled(int value, int max_value) {
  return static_cast<std::uint8_t>((value * 255 + max_value / 2) / max_value);
}

void read_plain(std::span<const std::byte> data, const Form& form, std::uint8_t* out) {
  Tokens tokens(data, form.offset);
  const std::size_t count = form.row_values * form.rows;
  for (std::size_t i = 0; i < count; ++i) {
    const int value = form.bitmap ? 1 - tokens.bit() : tokens.number();
    if (value > form.max_value) throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
    out[i] = scaled(value, form.max_value);
  }
}

void read_bits(const std::uint8_t* in, const Form& form, std::uint8_t* out) {
  const std::size_t width = form.row_values;
  for (std::size_t y = 0; y < form.rows; ++y, in += (width + 7) / 8, out += width) {
    for (std::size_t x = 0; x < width; ++x) {
      out[x] = (in[x / 8] >> (7 - x % 8)) & 1 ? 0 : 255;
    }
  }
}

void read_binary(const std::uint8_t* in, const Form& form, std::uint8_t* out) {
  const std::size_t count = form.row_values * form.rows;
  const bool wide = form.max_value > 255;
  for (std::size_t i = 0; i < count; ++i) {
    const int value = wide ? in[2 * i] * 256 + in[2 * i + 1] : in[i];
    if (value > form.max_value) throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
    out[i] = scaled(value, form.max_value);
  }
}

// Reads the numbers unscaled, `bytes` each.
void read_numbers(std::span<const std::byte> data, const Form& form, std::size_t bytes,
                  std::uint8_t* out) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(data.data()) + form.offset;
  const std::size_t width = form.row_values;
  Tokens tokens(data, form.offset);
  for (std::size_t y = 0; y < form.rows; ++y) {
    for (std::size_t x = 0; x < width; ++x, out += bytes) {
      int value = 0;
      if (form.plain) {
        value = form.bitmap ? tokens.bit() : tokens.number();
      } else if (form.bitmap) {
        value = (in[x / 8] >> (7 - x % 8)) & 1;
      } else {
        value = bytes == 2 ? in[2 * x] * 256 + in[2 * x + 1] : in[x];
      }
      if (value > form.max_value) throw Error(ErrorCode::kCorrupt, "PNM: a value is above maxval");
      if (bytes == 2) out[0] = static_cast<std::uint8_t>(value >> 8);
      out[bytes - 1] = static_cast<std::uint8_t>(value);
    }
    in += form.bitmap ? (width + 7) / 8 : width * bytes;
  }
}

bool looks_like_pnm(std::span<const std::byte> file) {
  if (file.size() < 3 || !begins_with(file, "P")) return false;
  const auto kind = static_cast<char>(file[1]);
  const auto space = static_cast<char>(file[2]);
  return kind >= '1' && kind <= '6' &&
         std::string_view(" \t\r\n#").find(space) != std::string_view::npos;
}

ImageHeader read_pnm_header(std::span<const std::byte> data, const HeaderOptions& options) {
  if (data.size() < 3) throw Tokens::cut();
  const int kind = static_cast<int>(data[1]) - '0';
  ImageHeader header{.channels = kind == 3 || kind == 6 ? 3 : 1};
  header.numbers = options.numbers == Numbers::kAll && header.channels == 1;
  Tokens tokens(data, 2);
  header.width = tokens.number();
  header.height = tokens.number();
  Form form{.plain = kind <= 3, .bitmap = kind == 1 || kind == 4};
  form.max_value = form.bitmap ? 1 : tokens.number();
  if (form.max_value > 255) header.level_bytes = 2;
  if (header.width == 0 || header.height == 0) throw Error(ErrorCode::kCorrupt, "PNM of no size");
  if (form.max_value < 1 || form.max_value > 65535) {
    throw Error(ErrorCode::kCorrupt, "PNM: maxval is not in 1 to 65535");
  }
  check_pixels(header.width, header.height, options.limits);
  form.rows = static_cast<std::size_t>(header.height);
  form.row_values =
      static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.channels);
  form.offset = tokens.after_space();
  header.in_place = form.max_value == 255 && !form.plain;
  if (data.size() - form.offset < pixel_bytes(form)) throw Tokens::cut();
  header.keep(form);
  return header;
}

// Returns all pixels whatever the box, in place if possible. As numbers, grey levels stay unscaled,
// two bytes each if max_value is above 255; a PBM's black is 1.
PixelView decode_pnm(std::span<const std::byte> data, const ImageHeader& header,
                     const PixelRequest&, CodecScratch& scratch) {
  const auto form = header.kept<Form>();
  const auto* in = reinterpret_cast<const std::uint8_t*>(data.data()) + form.offset;
  PixelView view{.data = in,
                 .stride = form.row_values,
                 .box = {0, 0, header.width, header.height},
                 .channels = header.channels};
  if (form.max_value == 255 && !form.plain) return view;
  if (header.numbers) {
    view.channels = header.level_bytes;
    view.stride *= static_cast<std::size_t>(view.channels);
  }
  std::uint8_t* out = reserve_pixels(scratch.pixels, view.stride * form.rows);
  if (header.numbers) {
    read_numbers(data, form, static_cast<std::size_t>(view.channels), out);
  } else if (form.plain) {
    read_plain(data, form, out);
  } else if (form.bitmap) {
    read_bits(in, form, out);
  } else {
    read_binary(in, form, out);
  }
  view.data = out;
  return view;
}

}  // namespace

Codec pnm_codec() {
  return {.name = "PNM",
          .suffixes = {"ppm", "pgm", "pbm", "pnm"},
          .sniff = looks_like_pnm,
          .read_header = read_pnm_header,
          .decode = decode_pnm,
          .encode = [](const Image& image, const EncodeOptions&) {
            return EncodedImage{image.channels == 1 ? "pgm" : "ppm", encode_pnm(image)};
          }};
}

}  // namespace millrace::decode::detail
