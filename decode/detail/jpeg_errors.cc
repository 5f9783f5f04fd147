#include "decode/detail/jpeg_errors.h"

#include <new>
#include <string>

namespace millrace::decode::detail {
namespace {

void ignore_output(j_common_ptr) {}

}  // namespace

jpeg_error_mgr* JpegErrors::attach() {
  jpeg_std_error(&base);
  base.error_exit = leave;
  base.output_message = ignore_output;
  return &base;
}

void JpegErrors::raise() const {
  if (code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  throw Error(code_of(code), std::string("JPEG: ") + message.data());
}

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->code = errors->base.msg_code;
  errors->base.format_message(info, errors->message.data());
  std::longjmp(errors->frame, 1);
}

ErrorCode code_of(int message) {
  switch (message) {
// Ubuntu's has libjpeg 8's interface, which knows arithmetic coding.
#if JPEG_LIB_VERSION < 70
    case JERR_ARITH_NOTIMPL:
#endif
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
      return ErrorCode::kUnsupported;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
    case JWRN_JPEG_EOF:
      return ErrorCode::kTruncated;
    default:
      return ErrorCode::kCorrupt;
  }
}

}  // namespace millrace::decode::detail
