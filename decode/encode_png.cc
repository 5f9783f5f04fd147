#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

// What libpng's callbacks see. The vector outlives every frame that an error jumps over.
struct Output {
  std::vector<std::byte> bytes;
  std::array<char, 160> message = {};
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
  if (!append(output->bytes, data, size)) png_error(png, "out of memory");
}

void on_flush(png_structp) {}

class PngWriter {
 public:
  explicit PngWriter(Output& output)
      : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, &output, on_error, on_warning)) {
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

  // Holds no C++ object that needs a destructor: png_error jumps over it.
  bool write(const Image& image, int colour_type) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width),
                 static_cast<png_uint_32>(image.height), 8, colour_type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (int y = 0; y < image.height; ++y) png_write_row(png_, image.row(y).data());
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

}  // namespace

io::Bytes encode_png(const Image& image) {
  Output output;
  PngWriter writer(output);
  if (!writer.write(image, colour_type_of(image.channels))) {
    throw Error(ErrorCode::kInvalidArgument, std::string("PNG: ") + output.message.data());
  }
  return io::Bytes::take(std::move(output.bytes));
}

}  // namespace millrace::decode
