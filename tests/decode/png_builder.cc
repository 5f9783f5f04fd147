#include "tests/decode/png_builder.h"

#include <png.h>

#include <array>
#include <cmath>
#include <string>

#include "io/base/rng.h"

namespace millrace::testing {
namespace {

struct Palette {
  std::array<png_color, 256> colours = {};
  std::array<png_byte, 256> alphas = {};
  int size = 0;
};

int samples_per_pixel(int colour_type) {
  switch (colour_type) {
    case 2:
      return 3;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 1;
  }
}

Palette random_palette(int bit_depth, KeyedRng& rng) {
  Palette palette;
  palette.size = std::min(1 << bit_depth, 200);
  for (int i = 0; i < palette.size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto byte = [&] { return static_cast<png_byte>(rng.below(256)); };
    palette.colours[at] = {byte(), byte(), byte()};
    palette.alphas[at] = byte();
  }
  return palette;
}

// Samples of a row, packed as in PNG: the first one in the high bits.
std::vector<png_byte> packed(const std::vector<unsigned>& samples, int depth) {
  std::vector<png_byte> row((samples.size() * static_cast<std::size_t>(depth) + 7) / 8);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (depth == 16) {
      row[2 * i] = static_cast<png_byte>(samples[i] >> 8);
      row[2 * i + 1] = static_cast<png_byte>(samples[i]);
    } else {
      const std::size_t bit = i * static_cast<std::size_t>(depth);
      const auto shift = 8 - static_cast<std::size_t>(depth) - bit % 8;
      row[bit / 8] = static_cast<png_byte>(row[bit / 8] | samples[i] << shift);
    }
  }
  return row;
}

std::uint8_t to_byte(unsigned sample, int depth) {
  return static_cast<std::uint8_t>(std::lround(sample * 255.0 / ((1 << depth) - 1)));
}

void write_file(const PngShape& shape, const Palette& palette, unsigned key,
                std::vector<std::vector<png_byte>>& rows, std::string& out) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))
            ->append(reinterpret_cast<const char*>(data), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(shape.width),
               static_cast<png_uint_32>(shape.height), shape.bit_depth, shape.colour_type,
               shape.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (shape.colour_type == 3) png_set_PLTE(png, info, palette.colours.data(), palette.size);
  png_color_16 colour = {};
  colour.gray = colour.red = colour.green = colour.blue = static_cast<png_uint_16>(key);
  if (shape.transparent) {
    const bool indexed = shape.colour_type == 3;
    png_set_tRNS(png, info, palette.alphas.data(), indexed ? palette.size : 1, &colour);
  }
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_info(png, info);
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
}

// Adds the expected values of one pixel.
void expect_pixel(const PngShape& shape, const Palette& palette, const unsigned* samples,
                  unsigned key, BuiltPng& built) {
  const auto byte = [&](int i) { return to_byte(samples[i], shape.bit_depth); };
  std::array<std::uint8_t, 4> rgba = {byte(0), byte(0), byte(0), 255};
  bool is_key = samples[0] == key;
  if (shape.colour_type == 2 || shape.colour_type == 6) {
    rgba = {byte(0), byte(1), byte(2), 255};
    is_key = is_key && samples[1] == key && samples[2] == key;
  }
  if (shape.colour_type == 4) rgba[3] = byte(1);
  if (shape.colour_type == 6) rgba[3] = byte(3);
  if (shape.transparent && is_key) rgba[3] = 0;
  if (shape.colour_type == 3) {
    const png_color& colour = palette.colours[samples[0]];
    rgba = {colour.red, colour.green, colour.blue,
            shape.transparent ? palette.alphas[samples[0]] : std::uint8_t{255}};
    built.indices.push_back(static_cast<std::uint8_t>(samples[0]));
  }
  built.numbers.push_back(samples[0]);
  built.rgb.insert(built.rgb.end(), rgba.begin(), rgba.begin() + 3);
  built.rgba.insert(built.rgba.end(), rgba.begin(), rgba.end());
}

}  // namespace

BuiltPng build_png(const PngShape& shape, std::uint64_t seed) {
  KeyedRng rng({.seed = seed, .purpose = Purpose::kSynthetic});
  const Palette palette = random_palette(std::min(shape.bit_depth, 8), rng);
  const unsigned bound =
      shape.colour_type == 3 ? static_cast<unsigned>(palette.size) : 1U << shape.bit_depth;
  const auto key = static_cast<unsigned>(rng.below(bound));
  const auto count = static_cast<std::size_t>(samples_per_pixel(shape.colour_type));
  BuiltPng built;
  std::vector<std::vector<png_byte>> rows;
  for (int y = 0; y < shape.height; ++y) {
    std::vector<unsigned> samples;
    for (int x = 0; x < shape.width; ++x) {
      const bool keyed = rng.below(4) == 0;
      for (std::size_t i = 0; i < count; ++i) {
        samples.push_back(keyed ? key : static_cast<unsigned>(rng.below(bound)));
      }
      expect_pixel(shape, palette, &samples[samples.size() - count], key, built);
    }
    rows.push_back(packed(samples, shape.bit_depth));
  }
  std::string out;
  write_file(shape, palette, key, rows, out);
  built.file = io::Bytes::copy_of(out);
  return built;
}

}  // namespace millrace::testing
