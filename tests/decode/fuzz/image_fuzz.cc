// libFuzzer target: any bytes as an image, whole and through a decoder.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/jpeg_restarts.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "io/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;  // NOLINT
  static const decode::Limits limits = {.max_pixels = 1 << 16, .max_scans = 20};
  static const decode::ImageDecoder decoder(
      {.transforms = {decode::RandomResizedCrop{.size = 20}, decode::RandomHorizontalFlip{}},
       .dtype = decode::DType::kBFloat16,
       .apply_orientation = true,
       .limits = limits});
  const auto file = io::Bytes::copy_of(std::as_bytes(std::span(data, size)));
  for (const bool tolerant : {false, true}) {
    try {
      decode::decode_image(file, {.limits = limits, .tolerate_truncated = tolerant});
    } catch (const Error&) {  // a fault is a valid result
    }
  }
  try {
    std::vector<std::byte> slot(decoder.output().num_bytes());
    decoder.decode(file, {.index = size}, slot);
  } catch (const Error&) {
  }
  try {
    decode::add_restarts(file, {.limits = limits});
  } catch (const Error&) {
  }
  return 0;
}
