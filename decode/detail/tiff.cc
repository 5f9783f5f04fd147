// TIFF via libtiff: the first page, as 8-bit colours or as grey levels of 8 or 16 bits.
//
// Grey and RGB pixels that are stored in strips, 8 or 16 bits each, are read row by row. libtiff
// itself converts all others (palettes, CMYK, YCbCr, tiles, planes, 1 to 4 bits).
//
// Source: TIFF 6.0; libtiff 4.5's tiffio.h.
#include <tiffio.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "decode/detail/codecs.h"
#include "decode/detail/pixels.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

// libtiff gives RGBA in the order of the machine's integers.
static_assert(std::endian::native == std::endian::little);

// What libtiff reads from, and the first thing it complained of.
struct TiffInput {
  const std::uint8_t* data = nullptr;
  std::uint64_t size = 0;
  std::uint64_t at = 0;
  std::array<char, 200> message = {};
  bool failed = false;
};

// Which of the two ways the pixels are read, kept in the header.
struct Facts {
  bool by_rows = false;
  int samples = 1;  // per pixel
  int bits = 8;     // per sample
};

TiffInput& input_of(thandle_t handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t on_read(thandle_t handle, void* out, tmsize_t size) {
  TiffInput& input = input_of(handle);
  const std::uint64_t left = input.size - std::min(input.at, input.size);
  const std::uint64_t got = std::min(static_cast<std::uint64_t>(size), left);
  if (got > 0) std::memcpy(out, input.data + input.at, got);
  input.at += got;
  return static_cast<tmsize_t>(got);
}

tmsize_t on_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
  TiffInput& input = input_of(handle);
  if (whence == SEEK_SET) input.at = offset;
  if (whence == SEEK_CUR) input.at += offset;
  if (whence == SEEK_END) input.at = input.size + offset;
  return input.at;
}

int on_close(thandle_t) { return 0; }
toff_t on_size(thandle_t handle) { return input_of(handle).size; }

int on_map(thandle_t handle, void** base, toff_t* size) {
  TiffInput& input = input_of(handle);
  *base = const_cast<std::uint8_t*>(input.data);  // NOLINT: libtiff only reads what it maps
  *size = input.size;
  return 1;
}
void on_unmap(thandle_t, void*, toff_t) {}

int on_error(TIFF*, void* user, const char*, const char* format, va_list values) {
  auto& input = *static_cast<TiffInput*>(user);
  if (!input.failed) std::vsnprintf(input.message.data(), input.message.size(), format, values);
  input.failed = true;
  return 1;
}

// Warnings are of tags that no pixel depends on.
int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

/// One file that is being read. Threads: one at a time.
class Reader {
 public:
  /// `most_bytes` bounds each allocation of libtiff.
  Reader(std::span<const std::byte> data, std::uint64_t most_bytes)
      : input_{.data = reinterpret_cast<const std::uint8_t*>(data.data()), .size = data.size()} {
    const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
    if (!options) throw std::bad_alloc();
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<tmsize_t>::max());
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(),
                                        static_cast<tmsize_t>(std::min(most_bytes, kMost)));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &input_);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, &input_);
    tiff_.reset(TIFFClientOpenExt("image", "r", &input_, on_read, on_write, on_seek, on_close,
                                  on_size, on_map, on_unmap, options.get()));
    if (!tiff_) fail();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  TIFF* tiff() const { return tiff_.get(); }

  /// A tag's number, or its default.
  template <typename Number>
  Number tag(std::uint32_t which) const {
    Number value = 0;
    TIFFGetFieldDefaulted(tiff(), which, &value);
    return value;
  }

  [[noreturn]] void fail() const {
    const std::string said = input_.message.data();
    if (said.starts_with("Out of memory") || said.starts_with("No space")) throw std::bad_alloc();
    const bool limited = said.find("byte limit defined in open options") != std::string::npos;
    throw Error(limited ? ErrorCode::kExhausted : ErrorCode::kCorrupt,
                "TIFF: " + (said.empty() ? "damaged" : said));
  }

 private:
  TiffInput input_;
  std::unique_ptr<TIFF, CloseTiff> tiff_;
};

bool looks_like_tiff(std::span<const std::byte> file) {
  using namespace std::string_view_literals;
  return begins_with(file, "II*\0"sv) || begins_with(file, "MM\0*"sv) ||
         begins_with(file, "II+\0"sv) || begins_with(file, "MM\0+"sv);
}

void check_pieces(const Reader& reader, std::uint64_t size) {
  TIFF* tiff = reader.tiff();
  const std::uint32_t pieces =
      TIFFIsTiled(tiff) != 0 ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const std::uint64_t offset = TIFFGetStrileOffset(tiff, i);
    const std::uint64_t bytes = TIFFGetStrileByteCount(tiff, i);
    if (offset == 0 || bytes == 0)
      throw Error(ErrorCode::kCorrupt, "TIFF: a part of the picture is missing");
    if (offset > size || bytes > size - offset)
      throw Error(ErrorCode::kTruncated, "TIFF image is cut");
  }
}

bool has_alpha(const Reader& reader) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(reader.tiff(), TIFFTAG_EXTRASAMPLES, &count, &kinds);
  return count > 0;
}

Facts facts_of(const Reader& reader) {
  const auto photometric = reader.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
  Facts facts{.samples = reader.tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL),
              .bits = reader.tag<std::uint16_t>(TIFFTAG_BITSPERSAMPLE)};
  const bool whole_bytes = facts.bits == 8 || facts.bits == 16;
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK && facts.samples == 1;
  const bool rgb = photometric == PHOTOMETRIC_RGB && (facts.samples == 3 || facts.samples == 4);
  facts.by_rows = whole_bytes && (grey || rgb) && TIFFIsTiled(reader.tiff()) == 0 &&
                  reader.tag<std::uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_CONTIG &&
                  reader.tag<std::uint16_t>(TIFFTAG_SAMPLEFORMAT) == SAMPLEFORMAT_UINT;
  return facts;
}

void check_convertible(const Reader& reader) {
  std::array<char, 1024> message = {};  // libtiff's own size for it
  if (TIFFRGBAImageOK(reader.tiff(), message.data()) == 0)
    throw Error(ErrorCode::kUnsupported, std::string("TIFF: ") + message.data());
  if (has_alpha(reader))
    throw Error(ErrorCode::kUnsupported,
                "TIFF with alpha whose pixels are not RGB of 8 or 16 bits in strips");
}

bool is_lossy(const Reader& reader) {
  const auto compression = reader.tag<std::uint16_t>(TIFFTAG_COMPRESSION);
  return compression == COMPRESSION_JPEG || compression == COMPRESSION_OJPEG ||
         compression == COMPRESSION_WEBP || compression == COMPRESSION_LERC;
}

ImageHeader read_tiff_header(std::span<const std::byte> data, const HeaderOptions& options) {
  constexpr std::uint64_t kMostTagBytes = std::uint64_t{64} << 20;
  const Reader reader(data, kMostTagBytes);
  const auto width = reader.tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH);
  const auto height = reader.tag<std::uint32_t>(TIFFTAG_IMAGELENGTH);
  if (width == 0 || height == 0) throw Error(ErrorCode::kCorrupt, "TIFF of no size");
  check_pixels(width, height, options.limits);
  if (!options.tolerate_truncated) check_pieces(reader, data.size());
  const Facts facts = facts_of(reader);
  if (!facts.by_rows) check_convertible(reader);
  const bool grey =
      facts.by_rows ? facts.samples == 1
                    : reader.tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL) == 1 &&
                          reader.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC) <= PHOTOMETRIC_MINISBLACK;
  ImageHeader header{.height = static_cast<int>(height),
                     .width = static_cast<int>(width),
                     .channels = grey            ? 1
                                 : facts.by_rows ? facts.samples
                                                 : 3,
                     .orientation = reader.tag<std::uint16_t>(TIFFTAG_ORIENTATION),
                     .lossy = is_lossy(reader),
                     .numbers = options.numbers == Numbers::kAll && facts.by_rows && grey};
  if (header.orientation < 1 || header.orientation > 8) header.orientation = 1;
  if (TIFFLastDirectory(reader.tiff()) == 0) header.untidy = "TIFF: pages behind the first";
  header.keep(facts);
  return header;
}

// 16 bits in the machine's order become 8, or two bytes, big-endian, as numbers.
void convert_row(const std::uint8_t* in, const Facts& facts, bool numbers, std::size_t values,
                 std::uint8_t* out) {
  if (facts.bits == 8) {
    std::memcpy(out, in, values);
    return;
  }
  for (std::size_t i = 0; i < values; ++i) {
    std::uint16_t value = 0;
    std::memcpy(&value, in + 2 * i, sizeof value);
    if (numbers) {
      out[2 * i] = static_cast<std::uint8_t>(value >> 8);
      out[2 * i + 1] = static_cast<std::uint8_t>(value);
    } else {
      out[i] = static_cast<std::uint8_t>((value * 255U + 32767U) / 65535U);
    }
  }
}

PixelView read_rows(const Reader& reader, const ImageHeader& header, const Box& box,
                    CodecScratch& scratch) {
  const auto facts = header.kept<Facts>();
  const std::size_t values =
      static_cast<std::size_t>(header.width) * static_cast<std::size_t>(facts.samples);
  const std::size_t stored = values * static_cast<std::size_t>(facts.bits / 8);
  if (TIFFScanlineSize64(reader.tiff()) != stored)
    throw Error(ErrorCode::kCorrupt, "TIFF: its header contradicts its rows");
  const std::size_t stride = header.numbers ? stored : values;
  const auto rows = static_cast<std::size_t>(box.height);
  std::uint8_t* out = reserve_pixels(scratch.pixels, stride * rows + stored);
  std::uint8_t* line = out + stride * rows;
  for (int y = 0; y < box.y + box.height; ++y) {
    if (TIFFReadScanline(reader.tiff(), line, static_cast<std::uint32_t>(y), 0) != 1) reader.fail();
    if (y >= box.y)
      convert_row(line, facts, header.numbers, values,
                  out + static_cast<std::size_t>(y - box.y) * stride);
  }
  return {.data = out,
          .stride = stride,
          .box = {0, box.y, header.width, box.height},
          .channels = static_cast<int>(stride / static_cast<std::size_t>(header.width))};
}

struct RgbaImage {
  explicit RgbaImage(const Reader& reader) {
    std::array<char, 1024> message = {};
    if (TIFFRGBAImageBegin(&image, reader.tiff(), 1, message.data()) == 0)
      throw Error(ErrorCode::kCorrupt, std::string("TIFF: ") + message.data());
    image.req_orientation = image.orientation;  // as stored: the caller turns it
  }
  ~RgbaImage() { TIFFRGBAImageEnd(&image); }
  RgbaImage(const RgbaImage&) = delete;
  RgbaImage& operator=(const RgbaImage&) = delete;

  TIFFRGBAImage image = {};
};

PixelView read_converted(const Reader& reader, const ImageHeader& header, CodecScratch& scratch) {
  RgbaImage rgba(reader);
  const std::size_t count =
      static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height);
  auto& raster = scratch.state<std::vector<std::uint32_t>>();
  raster.assign(count, 0);
  if (TIFFRGBAImageGet(&rgba.image, raster.data(), static_cast<std::uint32_t>(header.width),
                       static_cast<std::uint32_t>(header.height)) == 0)
    reader.fail();
  const auto channels = static_cast<std::size_t>(header.channels);
  std::uint8_t* out = reserve_pixels(scratch.pixels, count * channels);
  const auto* in = reinterpret_cast<const std::uint8_t*>(raster.data());
  for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * channels, in + 4 * i, channels);
  return {.data = out,
          .stride = static_cast<std::size_t>(header.width) * channels,
          .box = {0, 0, header.width, header.height},
          .channels = header.channels};
}

// Rows up to the box's end are decoded; damage behind them is not seen.
PixelView decode_tiff(std::span<const std::byte> data, const ImageHeader& header,
                      const PixelRequest& request, CodecScratch& scratch) {
  const std::uint64_t pixels =
      static_cast<std::uint64_t>(header.width) * static_cast<std::uint64_t>(header.height);
  constexpr std::uint64_t kMostPixelBytes = 16;
  const Reader reader(data, pixels * kMostPixelBytes + (std::uint64_t{64} << 20));
  if (header.kept<Facts>().by_rows) return read_rows(reader, header, request.box, scratch);
  return read_converted(reader, header, scratch);
}

}  // namespace

Codec tiff_codec() {
  return {.name = "TIFF",
          .suffixes = {"tif", "tiff"},
          .sniff = looks_like_tiff,
          .read_header = read_tiff_header,
          .decode = decode_tiff};
}

}  // namespace millrace::decode::detail
