// Pictures that compress like photographs: clouds of many sizes, hard edges, a little grain.
#pragma once

#include <cstdint>

#include "decode/image.h"

namespace millrace::testing {

/// RGB; the same seed gives the same picture. At 500 × 375 and JPEG quality 90 it takes some 110
/// KB.
decode::Image photo(int height, int width, std::uint64_t seed);

/// `image` in one channel: its luma.
decode::Image grey(const decode::Image& image);

}  // namespace millrace::testing
