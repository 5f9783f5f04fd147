// Running out of memory is not damage: it is std::bad_alloc, never a fault in the file.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "decode/encode.h"
#include "decode/image.h"
#include "io/base/error.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/support/address_space.h"

namespace millrace {
namespace {

constexpr int kOutOfMemory = 3;

/// Decodes while no allocation over 64 KiB succeeds. The exit status is the
/// outcome.
[[noreturn]] void decode_in_little_memory(const io::Bytes& file) {
  testing::limit_address_space(0);
  void* volatile taken = nullptr;  // uses up the heap's free blocks; never optimised away
  do {
    taken = std::malloc(64 << 10);  // NOLINT
  } while (taken != nullptr);
  try {
    decode::decode_image(file);
    std::_Exit(0);
  } catch (const std::bad_alloc&) {
    std::_Exit(kOutOfMemory);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(1);
  }
}

decode::Image blank(int height, int width) {
  const auto size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3;
  return {height, width, 3, io::Bytes::take(std::vector<std::byte>(size))};
}

TEST(Memory, WhatAProgressiveJpegNeedsIsNoFaultOfTheFile) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the whole address space";
  const io::Bytes file = testing::build_jpeg(blank(1000, 1000), {.progressive = true});
  EXPECT_EXIT(decode_in_little_memory(file), ::testing::ExitedWithCode(kOutOfMemory), "");
}

TEST(Memory, WhatAPngNeedsIsNoFaultOfTheFile) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the whole address space";
  const io::Bytes file = decode::encode_png(blank(1, 1'000'000));
  EXPECT_EXIT(decode_in_little_memory(file), ::testing::ExitedWithCode(kOutOfMemory), "");
}

}  // namespace
}  // namespace millrace
