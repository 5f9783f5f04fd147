// Pictures that compress like photographs: clouds of many sizes, hard edges, some grain.
#pragma once

#include <cstdint>

#include "decode/image.h"

namespace millrace::testing {

/// RGB; the same seed gives the same picture. At 500 × 375 and JPEG quality 90 it takes about 110
/// KB.
decode::Image photo(int height, int width, std::uint64_t seed);

/// `image` as one channel of luma.
decode::Image grey(const decode::Image& image);

}  // namespace millrace::testing
