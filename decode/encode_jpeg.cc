#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

#include "decode/detail/jpeg_errors.h"
#include "decode/detail/jpeglib.h"
#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

class JpegWriter {
 public:
  JpegWriter() {
    info_.err = errors_.attach();
    if (setjmp(errors_.frame) != 0) throw std::bad_alloc();
    jpeg_create_compress(&info_);
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(data_);  // NOLINT: libjpeg grew it with malloc
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  // Has no local that needs a destructor: libjpeg's errors jump over this frame.
  bool write(const Image& image, const JpegOptions& options) {
    if (setjmp(errors_.frame) != 0) return false;
    jpeg_mem_dest(&info_, &data_, &size_);
    configure(image, options);
    jpeg_start_compress(&info_, TRUE);
    for (int y = 0; y < image.height; ++y) {
      auto* row = const_cast<JSAMPROW>(image.row(y).data());  // libjpeg only reads it
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(data_), size_};
  }
  /// Throws libjpeg's error.
  [[noreturn]] void raise() const {
    if (errors_.code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    throw Error(ErrorCode::kInvalidArgument, std::string("JPEG: ") + errors_.message.data());
  }

 private:
  void configure(const Image& image, const JpegOptions& options) {
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = image.channels;
    info_.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, options.quality, TRUE);
    info_.optimize_coding = TRUE;
    if (image.channels == 3 && !options.subsample) {
      info_.comp_info[0].h_samp_factor = info_.comp_info[0].v_samp_factor = 1;
    }
  }

  jpeg_compress_struct info_ = {};
  detail::JpegErrors errors_;
  unsigned char* data_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

io::Bytes encode_jpeg(const Image& image, const JpegOptions& options) {
  if (image.channels != 1 && image.channels != 3) {
    throw Error(ErrorCode::kInvalidArgument, "JPEG is written with 1 or 3 channels");
  }
  JpegWriter writer;
  if (!writer.write(image, options)) writer.raise();
  return io::Bytes::copy_of(writer.bytes());
}

}  // namespace millrace::decode
