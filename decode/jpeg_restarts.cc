#include "decode/jpeg_restarts.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <string>

#include "decode/detail/codecs.h"
#include "decode/detail/jpeg_errors.h"
#include "decode/detail/jpeg_header.h"
#include "decode/detail/jpeglib.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr unsigned kWholeSegment = 0xFFFF;

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::kUnsupported, std::string("JPEG: ") + what);
}

// What is only odd may be damage that a new coding would hide.
void leave_at_warning(j_common_ptr info, int level) {
  if (level < 0) detail::leave(info);
}

// MCUs between two markers: the divisor of a row's that is nearest to `wanted` in proportion.
// Single MCUs would cost more bytes than they save.
unsigned interval_for(int row, int wanted) {
  int best = row;
  const auto distance = [&](int mcus) { return std::abs(std::log(double(mcus) / wanted)); };
  for (int mcus = 2; mcus < row; ++mcus)
    if (row % mcus == 0 && distance(mcus) < distance(best)) best = mcus;
  return static_cast<unsigned>(best);
}

class Recoder {
 public:
  Recoder() {
    in_.err = errors_.attach();
    out_.err = in_.err;
    errors_.base.emit_message = leave_at_warning;
    if (!guarded([this] { create(); })) throw std::bad_alloc();
  }
  ~Recoder() {
    jpeg_destroy_compress(&out_);
    jpeg_destroy_decompress(&in_);
    std::free(data_);  // NOLINT: libjpeg grew it with malloc
  }
  Recoder(const Recoder&) = delete;
  Recoder& operator=(const Recoder&) = delete;

  io::Bytes run(std::span<const std::byte> jpeg, const RestartOptions& options) {
    if (!guarded([&] { read_header(jpeg); })) errors_.raise();
    if (in_.arith_code) refuse("arithmetic coding");
    if (!guarded([&] { coefficients_ = jpeg_read_coefficients(&in_); })) errors_.raise();
    if (lacks_scans()) refuse("a progressive file without all of its scans");
    if (!guarded([&] { write(interval(options.pixels)); })) errors_.raise();
    return io::Bytes::copy_of(std::as_bytes(std::span(data_, size_)));
  }

 private:
  // Runs `call`, which holds no C++ object that needs a destructor: libjpeg's errors jump over it.
  template <typename Call>
  bool guarded(Call call) {
    if (setjmp(errors_.frame) != 0) return false;
    call();
    return true;
  }

  void create() {
    jpeg_create_decompress(&in_);
    jpeg_create_compress(&out_);
  }

  void read_header(std::span<const std::byte> jpeg) {
    jpeg_save_markers(&in_, JPEG_COM, kWholeSegment);
    for (int i = 0; i < 16; ++i) jpeg_save_markers(&in_, JPEG_APP0 + i, kWholeSegment);
    jpeg_mem_src(&in_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&in_, TRUE);
  }

  bool lacks_scans() const {
    if (in_.progressive_mode == FALSE || in_.coef_bits == nullptr) return false;
    const int* bits = in_.coef_bits[0];  // 0 if all bits of a coefficient are present
    return std::any_of(bits, bits + std::ptrdiff_t{in_.num_components} * DCTSIZE2,
                       [](int left) { return left != 0; });
  }

  unsigned interval(int pixels) const {
    const int mcu = DCTSIZE * (in_.num_components == 1 ? 1 : in_.max_h_samp_factor);
    const int row = (static_cast<int>(in_.image_width) + mcu - 1) / mcu;
    return interval_for(row, std::max(pixels / mcu, 1));
  }

  void write(unsigned restart_interval) {
    jpeg_mem_dest(&out_, &data_, &size_);
    jpeg_copy_critical_parameters(&in_, &out_);
    out_.optimize_coding = TRUE;
    out_.restart_interval = restart_interval;
    out_.write_JFIF_header = FALSE;  // those of the file are copied: they say what colours are
    out_.write_Adobe_marker = FALSE;
    jpeg_write_coefficients(&out_, coefficients_);
    for (const jpeg_marker_struct* one = in_.marker_list; one != nullptr; one = one->next)
      jpeg_write_marker(&out_, one->marker, one->data, one->data_length);
    jpeg_finish_compress(&out_);
  }

  jpeg_decompress_struct in_ = {};
  jpeg_compress_struct out_ = {};
  detail::JpegErrors errors_;
  jvirt_barray_ptr* coefficients_ = nullptr;
  unsigned char* data_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

io::Bytes add_restarts(const io::Bytes& jpeg, const RestartOptions& options) {
  if (!detail::begins_with(jpeg.span(), "\xff\xd8\xff")) refuse("not a JPEG");
  detail::read_jpeg_header(jpeg.span(), {.limits = options.limits});
  return Recoder().run(jpeg.span(), options);
}

}  // namespace millrace::decode
