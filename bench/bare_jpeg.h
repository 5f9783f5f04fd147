// BareJpeg: full decoding with libjpeg-turbo only: the limit for our own decoding.
#pragma once

// libjpeg's header needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <vector>

#include "io/bytes.h"

namespace millrace::bench {

/// Decodes into a picture that is reused from file to file.
/// Threads: one at a time.
class BareJpeg {
 public:
  BareJpeg() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~BareJpeg() { jpeg_destroy_decompress(&info_); }
  BareJpeg(const BareJpeg&) = delete;
  BareJpeg& operator=(const BareJpeg&) = delete;

  void decode(const io::Bytes& file) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    jpeg_start_decompress(&info_);
    const std::size_t stride = info_.output_width * std::size_t{3};
    pixels_.resize(stride * info_.output_height);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels_.data() + stride * info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
  }

 private:
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  std::vector<JSAMPLE> pixels_;
};

}  // namespace millrace::bench
