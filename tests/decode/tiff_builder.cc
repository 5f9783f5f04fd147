#include "tests/decode/tiff_builder.h"

#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "tests/support/temp_dir.h"

namespace millrace::testing {
namespace {

struct Close {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};

constexpr std::uint32_t kTileSide = 32;

std::uint8_t value_of(const decode::Image& image, int y, int x, int c) {
  const int width = image.width - 1;
  return image.row(std::min(
      y, image.height - 1))[static_cast<std::size_t>(std::min(x, width) * image.channels + c)];
}

/// A row of `width` pixels from (y, x) on, of colour `plane` or, with -1, of all of them.
std::vector<std::uint8_t> row_of(const decode::Image& image, const TiffOptions& options, int y,
                                 int x, int width, int plane) {
  std::vector<std::uint8_t> row;
  for (int i = 0; i < width; ++i) {
    for (int c = 0; c < image.channels; ++c) {
      if (plane >= 0 && c != plane) continue;
      const std::uint8_t value = value_of(image, y, x + i, c);
      row.push_back(options.min_is_white ? static_cast<std::uint8_t>(255 - value) : value);
      if (options.bits == 16) row.push_back(row.back());
    }
    const bool behind = plane < 0 || plane >= image.channels;
    const int extra = plane < 0 ? options.extra : 1;
    if (behind) row.insert(row.end(), static_cast<std::size_t>(extra * options.bits / 8), 0x5A);
  }
  return row;
}

void set_fields(TIFF* tiff, int height, int width, int channels, const TiffOptions& options) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, options.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, channels + options.extra);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, options.compression);
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, options.orientation);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG,
               options.planes ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  const int grey = options.min_is_white ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_MINISBLACK;
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, channels == 1 ? grey : PHOTOMETRIC_RGB);
  if (channels == 4) {
    const std::uint16_t alpha = EXTRASAMPLE_UNASSALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &alpha);
  }
  const std::vector<std::uint16_t> unknown(static_cast<std::size_t>(options.extra),
                                           EXTRASAMPLE_UNSPECIFIED);
  if (options.extra > 0) TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, options.extra, unknown.data());
  if (options.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, kTileSide);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, kTileSide);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 16);
  }
}

void write_tiles(TIFF* tiff, const decode::Image& image, const TiffOptions& options) {
  const int side = static_cast<int>(kTileSide);
  for (int y = 0; y < image.height; y += side) {
    for (int x = 0; x < image.width; x += side) {
      std::vector<std::uint8_t> tile;
      for (int line = 0; line < side; ++line) {
        const auto row = row_of(image, options, y + line, x, side, -1);
        tile.insert(tile.end(), row.begin(), row.end());
      }
      TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y),
                    0, 0);
    }
  }
}

void write_rows(TIFF* tiff, const decode::Image& image, const TiffOptions& options) {
  const int planes = options.planes ? image.channels + options.extra : 1;
  for (int plane = 0; plane < planes; ++plane) {
    for (int y = 0; y < image.height; ++y) {
      auto row = row_of(image, options, y, 0, image.width, options.planes ? plane : -1);
      TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y),
                        static_cast<std::uint16_t>(plane));
    }
  }
}

template <typename Write>
io::Bytes written(Write write) {
  const TempDir folder;
  const std::string path = folder / "a.tif";
  {
    const std::unique_ptr<TIFF, Close> tiff(TIFFOpen(path.c_str(), "w"));
    write(tiff.get());
  }
  return io::Bytes::copy_of(read_file(path));
}

}  // namespace

io::Bytes build_tiff(const decode::Image& image, const TiffOptions& options) {
  return written([&](TIFF* tiff) {
    for (int page = 0; page < options.pages; ++page) {
      set_fields(tiff, image.height, image.width, image.channels, options);
      if (options.tiled)
        write_tiles(tiff, image, options);
      else
        write_rows(tiff, image, options);
      TIFFWriteDirectory(tiff);
    }
  });
}

io::Bytes build_cmyk_tiff(int height, int width, int bits) {
  return written([&](TIFF* tiff) {
    set_fields(tiff, height, width, 3, {.bits = bits});
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 4);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_SEPARATED);
    std::vector<std::uint8_t> row(static_cast<std::size_t>(width * 4 * bits / 8), 0x40);
    for (int y = 0; y < height; ++y)
      TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), 0);
  });
}

io::Bytes build_tiff_levels(const std::vector<std::uint16_t>& levels, int width) {
  const int height = static_cast<int>(levels.size()) / width;
  return written([&](TIFF* tiff) {
    set_fields(tiff, height, width, 1, {.bits = 16});
    for (int y = 0; y < height; ++y) {
      std::vector<std::uint16_t> row(levels.begin() + y * width, levels.begin() + (y + 1) * width);
      TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), 0);
    }
  });
}

}  // namespace millrace::testing
