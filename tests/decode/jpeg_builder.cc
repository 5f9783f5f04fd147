#include "tests/decode/jpeg_builder.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "decode/detail/jpeglib.h"

namespace millrace::testing {
namespace {

// RGB to CMYK without black ink as Adobe stores it: 255 - ink, which is the colour, and 255.
std::vector<std::uint8_t> inked(const decode::Image& image) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.row(y);
    for (std::size_t i = 0; i < row.size(); i += 3) {
      pixels.insert(pixels.end(), {row[i], row[i + 1], row[i + 2], 255});
    }
  }
  return pixels;
}

std::vector<std::uint8_t> plain(const decode::Image& image) {
  const std::string_view text = image.pixels.text();
  return {text.begin(), text.end()};
}

void configure(jpeg_compress_struct& info, const decode::Image& image, const JpegShape& shape) {
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = shape.inks ? 4 : image.channels;
  info.in_color_space = shape.inks ? JCS_CMYK : image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  if (shape.inks_as_ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, shape.quality, TRUE);
  info.comp_info[0].h_samp_factor = shape.sampling[0];
  info.comp_info[0].v_samp_factor = shape.sampling[1];
  for (int i = 1; i < info.num_components; ++i) {
    info.comp_info[i].h_samp_factor = shape.chroma[0];
    info.comp_info[i].v_samp_factor = shape.chroma[1];
  }
  if (shape.inks_as_ycck) {  // black is sampled like luma
    info.comp_info[3].h_samp_factor = shape.sampling[0];
    info.comp_info[3].v_samp_factor = shape.sampling[1];
  }
  info.restart_in_rows = shape.restart_rows;
  info.restart_interval = shape.restart_interval;
  info.arith_code = shape.arithmetic ? TRUE : FALSE;
  if (shape.progressive) jpeg_simple_progression(&info);
}

}  // namespace

io::Bytes build_jpeg(const decode::Image& image, const JpegShape& shape) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  configure(info, image, shape);
  std::vector<std::uint8_t> pixels = shape.inks ? inked(image) : plain(image);
  const std::size_t stride = pixels.size() / static_cast<std::size_t>(image.height);
  jpeg_start_compress(&info, TRUE);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    JSAMPROW row = pixels.data() + y * stride;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  io::Bytes file = io::Bytes::copy_of(std::as_bytes(std::span(data, size)));
  jpeg_destroy_compress(&info);
  std::free(data);  // NOLINT: libjpeg grew it with malloc
  return file;
}

io::Bytes jpeg_with_scans(const io::Bytes& progressive, int extra) {
  const std::string text(progressive.text());
  const std::size_t last = text.rfind("\xff\xda");
  const std::string scan = text.substr(last, text.size() - 2 - last);
  std::string out = text.substr(0, text.size() - 2);
  for (int i = 0; i < extra; ++i) out += scan;
  return io::Bytes::copy_of(out + "\xff\xd9");
}

io::Bytes cut(const io::Bytes& file, std::size_t size) {
  return io::Bytes::copy_of(file.text().substr(0, size));
}

io::Bytes flip(const io::Bytes& file, std::size_t offset, unsigned mask) {
  std::string text(file.text());
  text[offset] = static_cast<char>(static_cast<unsigned char>(text[offset]) ^ mask);
  return io::Bytes::copy_of(text);
}

}  // namespace millrace::testing
