#include "decode/limits.h"

#include <fmt/format.h>

#include "io/base/error.h"

namespace millrace::decode {

void check_pixels(std::int64_t width, std::int64_t height, const Limits& limits) {
  if (height <= limits.max_pixels / width) return;
  throw Error(ErrorCode::kExhausted, fmt::format("image claims {} x {} pixels, the limit is {}",
                                                 width, height, limits.max_pixels));
}

}  // namespace millrace::decode
