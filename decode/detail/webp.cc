// WebP via libwebp: lossy and lossless still pictures.
//
// Source: RFC 9649 (the container); libwebp's decode.h and encode.h.
#include <webp/decode.h>
#include <webp/encode.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "decode/detail/codecs.h"
#include "decode/detail/pixels.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr std::size_t kRiffHeader = 12;

const std::uint8_t* bytes_of(std::span<const std::byte> data) {
  return reinterpret_cast<const std::uint8_t*>(data.data());
}

bool looks_like_webp(std::span<const std::byte> file) {
  return file.size() >= kRiffHeader && begins_with(file, "RIFF") &&
         begins_with(file.subspan(8), "WEBP");
}

// The size that the container claims, which libwebp alone notices only in the part it needs.
void check_riff_size(std::span<const std::byte> data) {
  const std::uint8_t* size = bytes_of(data) + 4;
  const std::uint64_t claimed = size[0] | std::uint64_t{size[1]} << 8 |
                                std::uint64_t{size[2]} << 16 | std::uint64_t{size[3]} << 24;
  if (claimed + 8 > data.size()) throw Error(ErrorCode::kTruncated, "WebP image is cut");
}

[[noreturn]] void fail(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      throw Error(ErrorCode::kTruncated, "WebP image is cut");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw Error(ErrorCode::kUnsupported, "WebP with a feature that libwebp does not read");
    default:
      throw Error(ErrorCode::kCorrupt, "WebP image is damaged");
  }
}

ImageHeader read_webp_header(std::span<const std::byte> data, const HeaderOptions& options) {
  if (!options.tolerate_truncated) check_riff_size(data);
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(bytes_of(data), data.size(), &features);
  if (status != VP8_STATUS_OK) fail(status);
  if (features.has_animation != 0)
    throw Error(ErrorCode::kUnsupported, "WebP with an animation, which is not one picture");
  constexpr int kLossless = 2;
  check_pixels(features.width, features.height, options.limits);
  return {.height = features.height,
          .width = features.width,
          .channels = features.has_alpha != 0 ? 4 : 3,
          .lossy = features.format != kLossless};
}

// The box's rows and all columns. libwebp crops lossy pictures at even rows, and computes colours
// at the crop's edges from fewer neighbours: two more rows on each side keep ours as in the whole.
Box rows_for(const ImageHeader& header, const Box& wanted) {
  const int first = std::max(0, (wanted.y & ~1) - 2);
  const int end = std::min(header.height, ((wanted.y + wanted.height + 1) & ~1) + 2);
  return {0, first, header.width, end - first};
}

PixelView decode_webp(std::span<const std::byte> data, const ImageHeader& header,
                      const PixelRequest& request, CodecScratch& scratch) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw Error(ErrorCode::kUnsupported, "WebP: libwebp is not the version that was compiled with");
  const int channels = request.channels == 4 ? 4 : 3;
  const Box box = rows_for(header, request.box);
  const std::size_t stride =
      static_cast<std::size_t>(header.width) * static_cast<std::size_t>(channels);
  const std::size_t size = stride * static_cast<std::size_t>(box.height);
  config.options.use_cropping = 1;
  config.options.crop_top = box.y;
  config.options.crop_width = box.width;
  config.options.crop_height = box.height;
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = reserve_pixels(scratch.pixels, size);
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = size;
  const VP8StatusCode status = WebPDecode(bytes_of(data), data.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) fail(status);
  return {.data = scratch.pixels.data(), .stride = stride, .box = box, .channels = channels};
}

struct FreeWebP {
  void operator()(std::uint8_t* data) const { WebPFree(data); }
};

EncodedImage encode_webp(const Image& image, const EncodeOptions& options) {
  const bool has_alpha = image.channels == 4;
  const std::size_t count =
      static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(image.pixels.data());
  std::vector<std::uint8_t> colours;
  if (image.channels == 1) {
    colours.resize(count * 3);
    convert_channels(pixels, 1, colours.data(), 3, count);
    pixels = colours.data();
  }
  std::uint8_t* out = nullptr;
  const auto quality = static_cast<float>(options.quality);
  const std::size_t size =
      has_alpha ? WebPEncodeRGBA(pixels, image.width, image.height, image.width * 4, quality, &out)
                : WebPEncodeRGB(pixels, image.width, image.height, image.width * 3, quality, &out);
  const std::unique_ptr<std::uint8_t, FreeWebP> owner(out);
  if (size == 0)
    throw Error(ErrorCode::kInvalidArgument, "WebP: a picture of " + std::to_string(image.width) +
                                                 "x" + std::to_string(image.height) +
                                                 " cannot be written (at most 16383 a side)");
  return {"webp", io::Bytes::copy_of(std::string_view(reinterpret_cast<const char*>(out), size))};
}

}  // namespace

Codec webp_codec() {
  return {.name = "WebP",
          .suffixes = {"webp"},
          .sniff = looks_like_webp,
          .read_header = read_webp_header,
          .decode = decode_webp,
          .encode = encode_webp,
          .encodes_alpha = true};
}

}  // namespace millrace::decode::detail
