#include "decode/recode.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/detail/codecs.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr std::int64_t kMaxSide = 65'500;  // JPEG's limit

[[noreturn]] void refuse_picture(const char* why) { throw Error(ErrorCode::kUnsupported, why); }

bool is_kept_segment(int code, std::string_view body) {
  constexpr std::string_view kProfile("ICC_PROFILE\0", 12);
  constexpr std::string_view kExif("Exif\0", 5);
  return (code == 0xE2 && body.starts_with(kProfile)) ||
         (code == 0xE1 && (body.starts_with(kExif) || body.starts_with("http://ns.adobe.com/xap")));
}

// Exif, XMP and colour profile, as whole segments. Others are about the old coding (JFIF, Adobe's),
// or about files behind this one (MPF). Requires: a JPEG that was decoded.
std::string kept_segments(std::string_view jpeg) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(jpeg[at]); };
  std::string kept;
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    const int code = byte(at) == 0xFF ? byte(at + 1) : 0;
    if (code == 0 || code == 0xDA || code == 0xD9) break;
    if (code == 0xFF) {  // filler
      ++at;
      continue;
    }
    const std::size_t length = std::size_t{2} + byte(at + 2) * 256U + byte(at + 3);
    if (length < 4 || length > jpeg.size() - at) break;
    const std::string_view segment = jpeg.substr(at, length);
    if (is_kept_segment(code, segment.substr(4))) kept += segment;
    at += length;
  }
  return kept;
}

// Behind the JFIF header, which comes first.
io::Bytes with_segments(std::string_view jpeg, const std::string& segments) {
  const bool has_header = jpeg.size() > 6 && jpeg.substr(2, 2) == "\xff\xe0";
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(jpeg[at]); };
  const std::size_t at = has_header ? 4 + byte(4) * 256U + byte(5) : 2;
  std::string file(jpeg.substr(0, at));
  file += segments;
  file += jpeg.substr(at);
  return io::Bytes::copy_of(file);
}

// What decode_image() would change without a word.
void check_storable(std::span<const std::byte> data, const Limits& limits) {
  const Codec* codec = standard_codecs()->of_content(data);
  if (codec == nullptr) return;  // decode_image() says what it is
  if (codec->name == "PNM") refuse_picture("its pixels are stored as they are already");
  if (codec->name == "TIFF") refuse_picture("a TIFF may have more than 8 bits");
  const ImageHeader header =
      codec->read_header(data, {.limits = limits, .numbers = Numbers::kPalette});
  if (header.numbers) refuse_picture("its pixels are indices of a palette");
  if (header.orientation != 1) refuse_picture("it is turned by its Exif orientation");
  constexpr std::size_t kPngDepth = 24;  // in IHDR, which is the first chunk
  if (codec->name == "PNG" && data.size() > kPngDepth && data[kPngDepth] != std::byte{8})
    refuse_picture("it does not have 8 bits per level");
}

}  // namespace

ImageSize size_with_shorter(const ImageSize& before, int shorter) {
  const auto other = [&](int longer_before, int shorter_before) {
    const std::int64_t pixels = std::int64_t{shorter} * longer_before / shorter_before;
    if (pixels > kMaxSide)
      throw Error(ErrorCode::kExhausted,
                  "the resized image would be " + std::to_string(pixels) + " pixels long");
    return static_cast<int>(pixels);
  };
  if (before.height < before.width)
    return {.height = shorter, .width = other(before.width, before.height)};
  return {.height = other(before.height, before.width), .width = shorter};
}

void refuse_deep_levels(const io::Bytes& picture, const Limits& limits) {
  const Codec* codec = standard_codecs()->of_content(picture.span());
  if (codec == nullptr) return;
  if (codec->read_header(picture.span(), {.limits = limits}).level_bytes > 1)
    refuse_picture("its levels have 16 bits, of which 8 would be left");
}

Image resize_image(const Image& image, const ImageSize& size) {
  const ImageDecoder decoder({.transforms = {Resize{{size.height, size.width}}},
                              .channels = image.channels,
                              .dtype = DType::kUInt8});
  std::vector<std::byte> pixels(decoder.output().num_bytes());
  // The fused decoder reads only files, so the picture is encoded again: uncompressed, unless it
  // has an alpha channel.
  decoder.decode(image.channels == 4 ? encode_png(image) : encode_pnm(image), {}, pixels);
  return {.height = size.height,
          .width = size.width,
          .channels = image.channels,
          .pixels = io::Bytes::take(std::move(pixels))};
}

std::optional<io::Bytes> shrink_jpeg(const io::Bytes& jpeg, const ShrinkOptions& options) {
  if (!detail::begins_with(jpeg.span(), "\xff\xd8\xff")) refuse_picture("not a JPEG");
  const DecodeImageOptions how{.limits = options.limits};
  const ImageSize before = image_size(jpeg, how);
  if (options.only_larger && std::min(before.height, before.width) <= options.shorter) return {};
  const ImageSize size = size_with_shorter(before, options.shorter);
  const io::Bytes small =
      encode_jpeg(resize_image(decode_image(jpeg, how), size), {.quality = options.quality});
  return with_segments(small.text(), kept_segments(jpeg.text()));
}

EncodedImage store_raw(const io::Bytes& picture, const Limits& limits) {
  check_storable(picture.span(), limits);
  const Image image = decode_image(picture, {.limits = limits});
  if (image.channels == 4) refuse_picture("it has an alpha channel");
  return {.suffix = image.channels == 1 ? "pgm" : "ppm", .data = encode_pnm(image)};
}

}  // namespace millrace::decode
