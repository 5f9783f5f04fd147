#include "decode/detail/png_reader.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "decode/detail/codecs.h"
#include "decode/detail/pixels.h"
#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

// State of libpng's callbacks; it has no member that needs a destructor.
struct PngInput {
  const png_byte* data = nullptr;
  std::size_t left = 0;
  std::array<char, 160> message = {};
  bool warned = false;  // `message` is the first tolerated warning
  bool no_memory = false;
};

void on_error(png_structp png, png_const_charp text) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::strncpy(input->message.data(), text, input->message.size() - 1);
  png_longjmp(png, 1);
}

bool starts_with(png_const_charp text, const char* start) {
  return std::strncmp(text, start, std::strlen(start)) == 0;
}

// Whether a warning concerns something that pixel values depend on: transparency, or image data
// that contradicts its checksum. All others cost no pixel: more image data than rows, a comment
// with a wrong CRC. Of a transparent colour's two bytes only as many bits count as a sample has
// (PNG, 11.3.2.1): others may be set, as in what Pillow wrote.
bool is_damage(png_const_charp warning) {
  if (std::strstr(warning, "tRNS chunk has out-of-range samples") != nullptr) return false;
  if (std::strstr(warning, "tRNS") != nullptr) return true;
  return starts_with(warning, "IDAT: ") && !starts_with(warning, "IDAT: Extra compressed data") &&
         !starts_with(warning, "IDAT: Too m");  // "much image data", "many IDATs found"
}

void on_warning(png_structp png, png_const_charp text) {
  if (is_damage(text)) png_error(png, text);
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  if (input->warned) return;
  input->warned = true;
  std::strncpy(input->message.data(), text, input->message.size() - 1);
}

png_voidp on_allocate(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);  // NOLINT: what libpng itself would use
  if (memory == nullptr) static_cast<PngInput*>(png_get_mem_ptr(png))->no_memory = true;
  return memory;
}

void on_free(png_structp, png_voidp memory) { std::free(memory); }  // NOLINT

void on_read(png_structp png, png_bytep out, std::size_t size) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (size > input->left) png_error(png, "data is cut");
  std::memcpy(out, input->data, size);
  input->data += size;
  input->left -= size;
}

class PngHandle {
 public:
  explicit PngHandle(PngInput& input)
      : png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &input, on_error, on_warning, &input,
                                      on_allocate, on_free)) {
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &input, on_read);
  }
  ~PngHandle() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngHandle(const PngHandle&) = delete;
  PngHandle& operator=(const PngHandle&) = delete;

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

  // Runs `call`, which holds no C++ object that needs a destructor: png_error jumps over it.
  template <typename Call>
  bool guarded(Call call) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    call();
    return true;
  }

 private:
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void set_limits(png_structp png, const ImageHeader& header) {
  png_set_user_limits(png, static_cast<png_uint_32>(header.width),
                      static_cast<png_uint_32>(header.height));
  // Text, profiles and the like are skipped unread: they are where decompression bombs hide.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_chunk_cache_max(png, 1);
  png_set_chunk_malloc_max(png, 1 << 20);
  png_set_benign_errors(png, 1);  // they become warnings, and on_warning decides
}

void set_transforms(png_structp png, int channels, bool numbers) {
  if (numbers) {
    png_set_packing(png);
    return png_set_strip_alpha(png);
  }
  png_set_expand(png);
  png_set_scale_16(png);
  if (channels >= 3) png_set_gray_to_rgb(png);
  if (channels == 4) {
    png_set_add_alpha(png, 0xFF, PNG_FILLER_AFTER);
  } else {
    png_set_strip_alpha(png);
  }
}

struct Rows {
  std::uint8_t* out;
  std::uint8_t* skipped;  // a scratch row for the rows before the box
  std::size_t stride;
  int first;
  int count;
};

void read_interlaced(png_structp png, const ImageHeader& header, const Rows& rows, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < header.height; ++y) {
      png_read_row(png, rows.out + static_cast<std::size_t>(y) * rows.stride, nullptr);
    }
  }
  png_read_end(png, nullptr);
}

void read_rows(png_structp png, const ImageHeader& header, const Rows& rows) {
  const int end = rows.first + rows.count;
  for (int y = 0; y < end; ++y) {
    const int kept = y - rows.first;
    std::uint8_t* out =
        kept < 0 ? rows.skipped : rows.out + static_cast<std::size_t>(kept) * rows.stride;
    png_read_row(png, out, nullptr);
  }
  if (end == header.height) png_read_end(png, nullptr);
}

/// Decodes the rows of the box, all columns; damage after the last of them is not detected. Numbers
/// have their bytes as channels.
PixelView decode_png(std::span<const std::byte> data, const ImageHeader& header,
                     const PixelRequest& request, CodecScratch& scratch) {
  const auto facts = header.kept<PngFacts>();
  // libpng converts grey to colour, but not colour to our grey.
  int channels = request.channels == 1 && header.channels != 1 ? 3 : request.channels;
  int first = request.box.y;
  int count = request.box.height;
  PngInput input{.data = reinterpret_cast<const png_byte*>(data.data()), .left = data.size()};
  PngHandle handle(input);
  const auto fail = [&input] {
    if (input.no_memory) throw std::bad_alloc();
    throw Error(ErrorCode::kCorrupt, std::string("PNG: ") + input.message.data());
  };
  png_structp png = handle.png();
  std::size_t stride = 0;
  int passes = 1;
  const bool started = handle.guarded([&] {
    set_limits(png, header);
    png_read_info(png, handle.info());
    set_transforms(png, channels, header.numbers);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, handle.info());
    stride = png_get_rowbytes(png, handle.info());
  });
  if (!started) fail();
  const auto width = static_cast<std::size_t>(header.width);
  if (header.numbers) channels *= header.level_bytes;
  if (stride != width * static_cast<std::size_t>(channels)) {
    throw Error(ErrorCode::kCorrupt, "PNG: its header contradicts its pixels");
  }
  if (facts.interlaced) {
    first = 0;
    count = header.height;
  }
  std::uint8_t* out =
      reserve_pixels(scratch.pixels, stride * (static_cast<std::size_t>(count) + 1));
  const Rows rows{out, out + stride * static_cast<std::size_t>(count), stride, first, count};
  const bool done = handle.guarded([&] {
    if (facts.interlaced) {
      read_interlaced(png, header, rows, passes);
    } else {
      read_rows(png, header, rows);
    }
  });
  if (!done) fail();
  if (input.warned) scratch.untidy = std::string("PNG: ") + input.message.data();
  return {
      .data = out, .stride = stride, .box = {0, first, header.width, count}, .channels = channels};
}

}  // namespace

Codec png_codec() {
  return {
      .name = "PNG",
      .suffixes = {"png"},
      .sniff =
          [](std::span<const std::byte> file) { return begins_with(file, "\x89PNG\r\n\x1a\n"); },
      .read_header = read_png_header,
      .decode = decode_png,
      .encode =
          [](const Image& image, const EncodeOptions&) {
            return EncodedImage{"png", encode_png(image)};
          },
      .encodes_alpha = true};
}

}  // namespace millrace::decode::detail
