#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "decode/codec.h"
#include "decode/encode.h"
#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "io/base/error.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/tiff_builder.h"
#include "tests/support/address_space.h"
#include "tests/support/effort.h"

namespace millrace {
namespace {

using decode::decode_image;
using testing::build_jpeg;
using testing::fault_of;

// The result must be an image or a fault of these kinds.
bool is_data_fault(std::optional<ErrorCode> code) {
  return !code || *code == ErrorCode::kCorrupt || *code == ErrorCode::kTruncated ||
         *code == ErrorCode::kUnsupported || *code == ErrorCode::kExhausted;
}

std::vector<io::Bytes> files() {
  const auto image = testing::photo(45, 60, 1);
  return {build_jpeg(image, {}),
          build_jpeg(image, {.progressive = true}),
          build_jpeg(image, {.inks = true}),
          build_jpeg(image, {.arithmetic = true}),
          decode::encode_png(image),
          decode::encode_pnm(image),
          decode::standard_codecs()->encode(image, "webp").data,
          testing::build_tiff(image, {.compression = 5}),
          testing::build_tiff(image, {.tiled = true})};
}

TEST(Damage, ACutFileIsAlwaysAFault) {
  for (const io::Bytes& file : files()) {
    for (std::size_t size = 3; size < file.size(); size += 1 + file.size() / 300) {
      const auto code = fault_of([&] { decode_image(testing::cut(file, size)); });
      ASSERT_TRUE(code.has_value()) << size << " of " << file.size();
      ASSERT_TRUE(is_data_fault(code)) << size << " of " << file.size();
    }
  }
}

TEST(Damage, ACutJpegIsAFaultWhereverTheCropIs) {
  const auto decoder =
      testing::plain_decoder({decode::RandomResizedCrop{.size = 16, .area = {0.05, 0.1}}});
  const io::Bytes file = build_jpeg(testing::photo(375, 500, 1), {});
  const io::Bytes half = testing::cut(file, file.size() / 2);
  for (std::uint64_t index = 0; index < 50; ++index) {
    EXPECT_EQ(fault_of([&] { testing::decoded(decoder, half, {.index = index}); }),
              ErrorCode::kTruncated);
  }
}

TEST(Damage, FlippedBytesGiveAnImageOrAFault) {
  const auto decoder = testing::plain_decoder(
      {decode::RandomResizedCrop{.size = 24}, decode::RandomHorizontalFlip{}});
  for (const io::Bytes& file : files()) {
    for (std::size_t offset = 0; offset < file.size(); offset += 1 + file.size() / 700) {
      for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
        const io::Bytes bad = testing::flip(file, offset, mask);
        ASSERT_TRUE(is_data_fault(fault_of([&] { decode_image(bad); }))) << offset;
        ASSERT_TRUE(is_data_fault(fault_of([&] {
          testing::decoded(decoder, bad, {.index = offset});
        }))) << offset;
      }
    }
  }
}

TEST(Damage, AFlippedPngPixelIsCaughtByItsChecksum) {
  const io::Bytes file = decode::encode_png(testing::photo(45, 60, 1));
  const std::size_t data = file.text().find("IDAT") + 4;
  for (std::size_t offset = data; offset < file.size() - 16; offset += 97) {
    EXPECT_EQ(fault_of([&] { decode_image(testing::flip(file, offset, 0x10)); }),
              ErrorCode::kCorrupt);
  }
}

TEST(Damage, AToleratedJpegKeepsItsIntactPart) {
  const auto image = testing::photo(375, 500, 2);
  const io::Bytes file = build_jpeg(image, {});
  const io::Bytes half = testing::cut(file, file.size() / 2);
  const auto whole = decode_image(file);
  const auto part = decode_image(half, {.tolerate_truncated = true});
  EXPECT_TRUE(std::ranges::equal(part.row(20), whole.row(20)));
  EXPECT_FALSE(std::ranges::equal(part.row(370), whole.row(370)));
}

TEST(Limits, AHugePngIsRefusedAtItsHeader) {
  std::string text(decode::encode_png(testing::photo(4, 4, 1)).text());
  text.replace(16, 8, std::string("\x00\x00\xff\xff\x00\x00\xff\xff", 8));
  EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(text)); }), ErrorCode::kExhausted);
}

TEST(Limits, APngChunkThatClaimsAGigabyteCostsNothing) {
  const std::string text(decode::encode_png(testing::photo(4, 4, 1)).text());
  const std::string claim("\x40\x00\x00\x00zTXtabcdefgh", 16);
  const std::string bomb = text.substr(0, 33) + claim;
  EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(bomb)); }), ErrorCode::kTruncated);
}

TEST(Limits, MaxPixelsHoldsForEveryFormat) {
  const auto image = testing::photo(20, 30, 1);
  for (const auto& file :
       {decode::encode_png(image), decode::encode_pnm(image), decode::encode_jpeg(image)}) {
    EXPECT_NO_THROW(decode_image(file, {.limits = {.max_pixels = 600}}));
    EXPECT_EQ(fault_of([&] { decode_image(file, {.limits = {.max_pixels = 599}}); }),
              ErrorCode::kExhausted);
  }
}

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

TEST(Memory, TooLittleForAProgressiveJpegIsNotAFaultOfTheFile) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the whole address space";
  const io::Bytes file = testing::build_jpeg(blank(1000, 1000), {.progressive = true});
  EXPECT_EXIT(decode_in_little_memory(file), ::testing::ExitedWithCode(kOutOfMemory), "");
}

TEST(Memory, TooLittleForAPngIsNotAFaultOfTheFile) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the whole address space";
  const io::Bytes file = decode::encode_png(blank(1, 1'000'000));
  EXPECT_EXIT(decode_in_little_memory(file), ::testing::ExitedWithCode(kOutOfMemory), "");
}

}  // namespace

}  // namespace millrace
