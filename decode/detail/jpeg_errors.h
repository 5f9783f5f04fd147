// libjpeg's errors as jumps out of it, and its codes as ours.
//
// A function that calls libjpeg behind setjmp(errors.frame) holds no C++ object that needs a
// destructor.
#pragma once

#include <array>
#include <csetjmp>

#include "decode/detail/jpeglib.h"
#include "io/base/error.h"

namespace millrace::decode::detail {

struct JpegErrors {
  jpeg_error_mgr base = {};  // first: libjpeg hands back a pointer to it
  std::jmp_buf frame = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};  ///< of the last error
  int code = 0;                                    ///< libjpeg's, of the last error

  /// Makes libjpeg's errors jump to `frame`, and its messages go nowhere. Returns what an info
  /// struct's `err` points to.
  jpeg_error_mgr* attach();
  /// Throws the last error: std::bad_alloc, or Error, as code_of() says.
  [[noreturn]] void raise() const;
};

/// Keeps the current message and jumps.
[[noreturn]] void leave(j_common_ptr info);

/// What libjpeg's error or warning `message` is.
ErrorCode code_of(int message);

}  // namespace millrace::decode::detail
