#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

// State of libpng's callbacks. The vector outlives every frame that an error jumps over.
struct Output {
  std::vector<std::byte> bytes;
  std::array<char, 160> message = {};
  bool no_memory = false;
};

void on_error(png_structp png, png_const_charp text) {
  auto* output = static_cast<Output*>(png_get_error_ptr(png));
  std::strncpy(output->message.data(), text, output->message.size() - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

bool append(std::vector<std::byte>& bytes, const png_byte* data, std::size_t size) noexcept {
  try {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void on_write(png_structp png, png_bytep data, std::size_t size) {
  auto* output = static_cast<Output*>(png_get_io_ptr(png));
  if (append(output->bytes, data, size)) return;
  output->no_memory = true;
  png_error(png, "out of memory");
}

void on_flush(png_structp) {}

// Else an error's text alone would say that there was no memory.
png_voidp allocate_for_writer(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);  // NOLINT: what libpng itself would use
  if (memory == nullptr) static_cast<Output*>(png_get_mem_ptr(png))->no_memory = true;
  return memory;
}

void free_for_writer(png_structp, png_voidp memory) { std::free(memory); }  // NOLINT

// Rows as PNG stores them, borrowed.
struct Raw {
  int height = 0;
  int width = 0;
  int bit_depth = 8;
  int colour_type = PNG_COLOR_TYPE_GRAY;
  const png_byte* pixels = nullptr;
  std::size_t stride = 0;
  const png_color* palette = nullptr;
  int palette_size = 0;
};

class PngWriter {
 public:
  explicit PngWriter(Output& output)
      : png_(png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &output, on_error, on_warning,
                                       &output, allocate_for_writer, free_for_writer)) {
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, nullptr);
      throw std::bad_alloc();
    }
    png_set_write_fn(png_, &output, on_write, on_flush);
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  // Has no local that needs a destructor: png_error jumps over this frame.
  bool write(const Raw& raw) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(raw.width),
                 static_cast<png_uint_32>(raw.height), raw.bit_depth, raw.colour_type,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (raw.palette_size > 0) png_set_PLTE(png_, info_, raw.palette, raw.palette_size);
    png_write_info(png_, info_);
    for (int y = 0; y < raw.height; ++y)
      png_write_row(png_, raw.pixels + static_cast<std::size_t>(y) * raw.stride);
    png_write_end(png_, nullptr);
    return true;
  }

 private:
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

int colour_type_of(int channels) {
  switch (channels) {
    case 1:
      return PNG_COLOR_TYPE_GRAY;
    case 3:
      return PNG_COLOR_TYPE_RGB;
    case 4:
      return PNG_COLOR_TYPE_RGB_ALPHA;
    default:
      throw Error(ErrorCode::kInvalidArgument, "PNG is written with 1, 3 or 4 channels");
  }
}

io::Bytes encode(const Raw& raw) {
  Output output;
  PngWriter writer(output);
  if (!writer.write(raw)) {
    if (output.no_memory) throw std::bad_alloc();
    throw Error(ErrorCode::kInvalidArgument, std::string("PNG: ") + output.message.data());
  }
  return io::Bytes::take(std::move(output.bytes));
}

// The numbers, big-endian, of 8 or 16 bits.
std::vector<png_byte> mask_rows(const ClassImage& mask, int bits) {
  std::vector<png_byte> rows;
  rows.reserve(mask.labels.size() * (bits > 8 ? 2 : 1));
  for (const std::int64_t label : mask.labels) {
    if (bits > 8) rows.push_back(static_cast<png_byte>(label >> 8));
    rows.push_back(static_cast<png_byte>(label));
  }
  return rows;
}

}  // namespace

io::Bytes encode_png(const Image& image) {
  return encode(
      {.height = image.height,
       .width = image.width,
       .colour_type = colour_type_of(image.channels),
       .pixels = reinterpret_cast<const png_byte*>(image.pixels.data()),
       .stride = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels)});
}

io::Bytes encode_mask_png(const ClassImage& mask, std::span<const RgbColour> colours,
                          int least_bits) {
  require(!mask.labels.empty() && colours.size() <= 256, "a palette has at most 256 colours");
  const auto [least, largest] = std::ranges::minmax(mask.labels);
  require(least >= 0 && largest <= 65535, "a mask's numbers are 0 to 65535");
  const int bits = largest > 255 || least_bits > 8 ? 16 : 8;
  const std::vector<png_byte> rows = mask_rows(mask, bits);
  Raw raw{.height = mask.height,
          .width = mask.width,
          .bit_depth = bits,
          .pixels = rows.data(),
          .stride = rows.size() / static_cast<std::size_t>(mask.height)};
  std::vector<png_color> palette(256);
  if (!colours.empty() && bits == 8) {
    for (std::size_t i = 0; i < colours.size(); ++i)
      palette[i] = {colours[i][0], colours[i][1], colours[i][2]};
    raw.colour_type = PNG_COLOR_TYPE_PALETTE;
    raw.palette = palette.data();
    raw.palette_size = std::max(static_cast<int>(colours.size()), static_cast<int>(largest) + 1);
  }
  return encode(raw);
}

}  // namespace millrace::decode
