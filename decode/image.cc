#include "decode/image.h"

#include <cstring>
#include <utility>
#include <vector>

#include "decode/detail/image_source.h"
#include "io/base/check.h"

namespace millrace::decode {

std::span<const std::uint8_t> Image::row(int y) const {
  MILLRACE_DCHECK(y >= 0 && y < height, "a row of the image");
  const auto stride = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  const auto* data = reinterpret_cast<const std::uint8_t*>(pixels.data());
  return {data + static_cast<std::size_t>(y) * stride, stride};
}

namespace {

std::vector<std::byte> packed(const PixelView& view) {
  const auto row =
      static_cast<std::size_t>(view.box.width) * static_cast<std::size_t>(view.channels);
  std::vector<std::byte> pixels(row * static_cast<std::size_t>(view.box.height));
  for (int y = 0; y < view.box.height; ++y) {
    std::memcpy(pixels.data() + static_cast<std::size_t>(y) * row, view.row(y), row);
  }
  return pixels;
}

detail::SourceOptions source_options(const DecodeImageOptions& options) {
  return {.header = {.limits = options.limits, .tolerate_truncated = options.tolerate_truncated},
          .apply_orientation = options.apply_orientation,
          .codecs = (options.codecs ? options.codecs : standard_codecs()).get()};
}

}  // namespace

ImageSize image_size(const io::Bytes& encoded, const DecodeImageOptions& options) {
  const detail::ImageSource source(encoded.span(), source_options(options));
  return {source.height(), source.width()};
}

Image decode_image(const io::Bytes& encoded, const DecodeImageOptions& options) {
  const detail::ImageSource source(encoded.span(), source_options(options));
  const int channels = options.channels == 0 ? source.header().channels : options.channels;
  detail::SourceWorkspace workspace;
  const PixelView view =
      source.read({0, 0, source.width(), source.height()}, 1, channels, workspace);
  return {.height = source.height(),
          .width = source.width(),
          .channels = channels,
          .pixels = io::Bytes::take(packed(view)),
          .untidy = std::move(workspace.codec.untidy)};
}

}  // namespace millrace::decode
