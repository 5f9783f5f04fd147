// TIFF via libtiff: the first page, as 8-bit colours or as grey levels of 8 or 16 bits.
//
// Grey and RGB pixels that are stored in strips, 8 or 16 bits each, are read row by row, and with
// each colour's values apart plane by plane; samples of unknown meaning behind the colours are left
// out. libtiff itself converts all others (palettes, CMYK, YCbCr, tiles, 1 to 4 bits).
//
// Source: TIFF 6.0; libtiff 4.5's tiffio.h.
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "decode/detail/codecs.h"
#include "decode/detail/pixels.h"
#include "decode/detail/tiff_reader.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

// libtiff gives RGBA in the order of the machine's integers.
static_assert(std::endian::native == std::endian::little);

// Which of the two ways the pixels are read, kept in the header.
struct Facts {
  bool by_rows = false;
  bool planes = false;  // each sample's values apart
  int samples = 1;      // per pixel
  int kept = 1;         // of them
  int bits = 8;         // per sample
};

bool looks_like_tiff(std::span<const std::byte> file) {
  using namespace std::string_view_literals;
  return begins_with(file, "II*\0"sv) || begins_with(file, "MM\0*"sv) ||
         begins_with(file, "II+\0"sv) || begins_with(file, "MM\0+"sv);
}

void check_pieces(const TiffReader& reader, std::uint64_t size) {
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

/// Samples behind the colours.
struct Extra {
  int count = 0;
  bool alpha = false;  // the first one says that it is
};

Extra extra_of(const TiffReader& reader) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(reader.tiff(), TIFFTAG_EXTRASAMPLES, &count, &kinds);
  const bool alpha =
      count > 0 && (kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA);
  return {.count = count, .alpha = alpha};
}

/// How many of a pixel's samples are its picture; 0 if that is for libtiff to say. What is behind
/// RGB is alpha, whatever it is called, if it is alone and beside it.
int kept_samples(const TiffReader& reader, const Facts& facts) {
  const auto photometric = reader.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
  const Extra extra = extra_of(reader);
  if (photometric == PHOTOMETRIC_MINISBLACK) {
    if (facts.samples == 1) return 1;
    return !extra.alpha && extra.count == facts.samples - 1 ? 1 : 0;
  }
  if (photometric != PHOTOMETRIC_RGB || facts.samples < 3) return 0;
  if (facts.samples == 3) return 3;
  if (facts.samples == 4 && !facts.planes) return 4;
  if (extra.alpha) return 4;
  return extra.count == facts.samples - 3 ? 3 : 0;
}

Facts facts_of(const TiffReader& reader) {
  Facts facts{.planes = reader.tag<std::uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE,
              .samples = reader.tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL),
              .bits = reader.tag<std::uint16_t>(TIFFTAG_BITSPERSAMPLE)};
  const bool whole_bytes = facts.bits == 8 || facts.bits == 16;
  facts.kept = kept_samples(reader, facts);
  facts.by_rows = whole_bytes && facts.kept > 0 && TIFFIsTiled(reader.tiff()) == 0 &&
                  reader.tag<std::uint16_t>(TIFFTAG_SAMPLEFORMAT) == SAMPLEFORMAT_UINT;
  return facts;
}

/// libtiff's conversion of a whole picture.
struct RgbaImage {
  explicit RgbaImage(const TiffReader& reader) {
    std::array<char, 1024> message = {};  // libtiff's own size for it
    if (TIFFRGBAImageBegin(&image, reader.tiff(), 1, message.data()) == 0)
      throw Error(TiffReader::code_of(message.data()), std::string("TIFF: ") + message.data());
    image.req_orientation = image.orientation;  // as stored: the caller turns it
  }
  ~RgbaImage() { TIFFRGBAImageEnd(&image); }
  RgbaImage(const RgbaImage&) = delete;
  RgbaImage& operator=(const RgbaImage&) = delete;

  TIFFRGBAImage image = {};
};

void check_codec(const TiffReader& reader) {
  const auto compression = reader.tag<std::uint16_t>(TIFFTAG_COMPRESSION);
  if (TIFFIsCODECConfigured(compression) == 0)
    throw Error(ErrorCode::kUnsupported, "TIFF: compression " + std::to_string(compression));
}

void check_convertible(const TiffReader& reader) {
  std::array<char, 1024> message = {};
  if (TIFFRGBAImageOK(reader.tiff(), message.data()) == 0)
    throw Error(ErrorCode::kUnsupported, std::string("TIFF: ") + message.data());
  static_cast<void>(RgbaImage(reader));
  if (extra_of(reader).count > 0)
    throw Error(ErrorCode::kUnsupported,
                "TIFF with alpha whose pixels are not RGB of 8 or 16 bits in strips");
}

bool is_lossy(const TiffReader& reader) {
  const auto compression = reader.tag<std::uint16_t>(TIFFTAG_COMPRESSION);
  return compression == COMPRESSION_JPEG || compression == COMPRESSION_OJPEG ||
         compression == COMPRESSION_WEBP || compression == COMPRESSION_LERC;
}

ImageHeader read_tiff_header(std::span<const std::byte> data, const HeaderOptions& options) {
  constexpr std::uint64_t kMostTagBytes = std::uint64_t{64} << 20;
  const TiffReader reader(data, kMostTagBytes);
  const auto width = reader.tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH);
  const auto height = reader.tag<std::uint32_t>(TIFFTAG_IMAGELENGTH);
  if (width == 0 || height == 0) throw Error(ErrorCode::kCorrupt, "TIFF of no size");
  check_pixels(width, height, options.limits);
  if (!options.tolerate_truncated) check_pieces(reader, data.size());
  check_codec(reader);
  const Facts facts = facts_of(reader);
  if (!facts.by_rows) check_convertible(reader);
  const bool grey =
      facts.by_rows ? facts.kept == 1
                    : reader.tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL) == 1 &&
                          reader.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC) <= PHOTOMETRIC_MINISBLACK;
  ImageHeader header{.height = static_cast<int>(height),
                     .width = static_cast<int>(width),
                     .channels = grey            ? 1
                                 : facts.by_rows ? facts.kept
                                                 : 3,
                     .orientation = reader.tag<std::uint16_t>(TIFFTAG_ORIENTATION),
                     .lossy = is_lossy(reader),
                     .numbers = options.numbers == Numbers::kAll && facts.by_rows && grey};
  if (facts.by_rows) header.level_bytes = facts.bits / 8;
  if (header.orientation < 1 || header.orientation > 8) header.orientation = 1;
  if (TIFFLastDirectory(reader.tiff()) == 0) header.untidy = "TIFF: pages behind the first";
  header.keep(facts);
  return header;
}

/// A row's samples, and where they go.
struct Row {
  const std::uint8_t* in;
  std::size_t in_step;  // in samples
  std::uint8_t* out;
  std::size_t out_step;
  std::size_t count;
};

// 16 bits in the machine's order become 8, or two bytes, big-endian, as numbers.
void convert_row(const Row& row, int bits, bool numbers) {
  if (bits == 8) {
    if (row.in_step == 1 && row.out_step == 1) std::memcpy(row.out, row.in, row.count);
    for (std::size_t i = 0; i < row.count && row.in_step + row.out_step > 2; ++i)
      row.out[i * row.out_step] = row.in[i * row.in_step];
    return;
  }
  for (std::size_t i = 0; i < row.count; ++i) {
    std::uint16_t value = 0;
    std::memcpy(&value, row.in + 2 * i * row.in_step, sizeof value);
    if (numbers) {
      row.out[2 * i * row.out_step] = static_cast<std::uint8_t>(value >> 8);
      row.out[2 * i * row.out_step + 1] = static_cast<std::uint8_t>(value);
    } else {
      row.out[i * row.out_step] = static_cast<std::uint8_t>((value * 255U + 32767U) / 65535U);
    }
  }
}

/// Converts what has been read as row `line` of all samples, or of `plane`.
void convert_samples(const std::uint8_t* line, const Facts& facts, bool numbers, std::size_t width,
                     std::uint16_t plane, std::uint8_t* out) {
  const auto kept = static_cast<std::size_t>(facts.kept);
  const auto samples = static_cast<std::size_t>(facts.samples);
  const auto bytes = static_cast<std::size_t>(facts.bits / 8);
  if (facts.planes)
    return convert_row(
        {.in = line, .in_step = 1, .out = out + plane, .out_step = kept, .count = width},
        facts.bits, numbers);
  if (kept == samples)
    return convert_row(
        {.in = line, .in_step = 1, .out = out, .out_step = 1, .count = width * samples}, facts.bits,
        numbers);
  for (std::size_t s = 0; s < kept; ++s)
    convert_row({.in = line + s * bytes,
                 .in_step = samples,
                 .out = out + s,
                 .out_step = kept,
                 .count = width},
                facts.bits, numbers);
}

PixelView read_row_box(const TiffReader& reader, const ImageHeader& header, const Box& box,
                       CodecScratch& scratch) {
  const auto facts = header.kept<Facts>();
  const auto width = static_cast<std::size_t>(header.width);
  const std::size_t values = width * static_cast<std::size_t>(facts.kept);
  const std::size_t stored = width * static_cast<std::size_t>(facts.planes ? 1 : facts.samples) *
                             static_cast<std::size_t>(facts.bits / 8);
  if (TIFFScanlineSize64(reader.tiff()) != stored)
    throw Error(ErrorCode::kCorrupt, "TIFF: its header contradicts its rows");
  const std::size_t stride =
      header.numbers ? values * static_cast<std::size_t>(header.level_bytes) : values;
  const auto rows = static_cast<std::size_t>(box.height);
  std::uint8_t* out = reserve_pixels(scratch.pixels, stride * rows + stored);
  std::uint8_t* line = out + stride * rows;
  const int planes = facts.planes ? facts.kept : 1;
  for (int plane = 0; plane < planes; ++plane) {
    const auto sample = static_cast<std::uint16_t>(plane);
    for (int y = 0; y < box.y + box.height; ++y) {
      if (TIFFReadScanline(reader.tiff(), line, static_cast<std::uint32_t>(y), sample) != 1)
        reader.fail();
      if (y >= box.y)
        convert_samples(line, facts, header.numbers, width, sample,
                        out + static_cast<std::size_t>(y - box.y) * stride);
    }
  }
  return {.data = out,
          .stride = stride,
          .box = {0, box.y, header.width, box.height},
          .channels = static_cast<int>(stride / width)};
}

PixelView read_converted(const TiffReader& reader, const ImageHeader& header,
                         CodecScratch& scratch) {
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
  const TiffReader reader(data, pixels * kMostPixelBytes + (std::uint64_t{64} << 20));
  if (header.kept<Facts>().by_rows) return read_row_box(reader, header, request.box, scratch);
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
