#include "decode/detail/image_source.h"

#include <utility>

#include "decode/detail/orientation.h"
#include "decode/detail/pixels.h"
#include "decode/sniff.h"
#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

const Codec& codec_of(std::span<const std::byte> data, const CodecTable& codecs) {
  if (const Codec* codec = codecs.of_content(data)) return *codec;
  throw Error(ErrorCode::kUnsupported,
              "not an image that can be decoded: it looks like " + describe_content(data));
}

/// Checks again what a user-defined codec may have forgotten to check.
ImageHeader checked(ImageHeader header, const Codec& codec, const Limits& limits) {
  const bool possible = header.width > 0 && header.height > 0 && header.orientation >= 1 &&
                        header.orientation <= 8 &&
                        (header.channels == 1 || header.channels == 3 || header.channels == 4);
  if (!possible) throw Error(ErrorCode::kCorrupt, codec.name + ": an image of no possible size");
  check_pixels(header.width, header.height, limits);
  return header;
}

bool covers(const Box& whole, const Box& part) {
  return whole.x <= part.x && whole.y <= part.y && whole.x + whole.width >= part.x + part.width &&
         whole.y + whole.height >= part.y + part.height;
}

}  // namespace

ImageSource::ImageSource(std::span<const std::byte> data, const SourceOptions& options)
    : data_(data),
      tolerate_truncated_(options.header.tolerate_truncated),
      codec_(codec_of(data, *options.codecs)),
      header_(checked(codec_.read_header(data, options.header), codec_, options.header.limits)),
      orientation_(options.apply_orientation ? header_.orientation : 1),
      width_(header_.width),
      height_(header_.height) {
  if (swaps_axes(orientation_)) std::swap(width_, height_);
}

PixelView ImageSource::read_numbers(const Box& box, SourceWorkspace& workspace) const {
  return read_stored(box, 1, 1, workspace.codec);
}

PixelView ImageSource::read_stored(const Box& box, int scale, int channels,
                                   CodecScratch& scratch) const {
  scratch.untidy = header_.untidy;
  const PixelView view = codec_.decode(
      data_, header_,
      {.box = box, .scale = scale, .channels = channels, .tolerate_truncated = tolerate_truncated_},
      scratch);
  MILLRACE_CHECK(view.data != nullptr && covers(view.box, box),
                 "a codec gives the pixels that it is asked for");
  return view;
}

PixelView ImageSource::read_channels(const Box& box, int scale, int channels,
                                     SourceWorkspace& workspace) const {
  const PixelView stored = read_stored(box, scale, channels, workspace.codec);
  if (stored.channels == channels) return stored;
  PixelView view = stored;
  const auto width = static_cast<std::size_t>(stored.box.width);
  view.channels = channels;
  view.stride = width * static_cast<std::size_t>(channels);
  const auto rows = static_cast<std::size_t>(stored.box.height);
  std::uint8_t* out = reserve_pixels(workspace.converted, view.stride * rows);
  view.data = out;
  for (int y = 0; y < stored.box.height; ++y, out += view.stride) {
    convert_channels(stored.row(y), stored.channels, out, channels, width);
  }
  return view;
}

PixelView ImageSource::read(const Box& box, int scale, int channels,
                            SourceWorkspace& workspace) const {
  if (orientation_ == 1) return read_channels(box, scale, channels, workspace);
  // Rotated pictures are rare: they are decoded whole and then rotated.
  const Box all{0, 0, (header_.width + scale - 1) / scale, (header_.height + scale - 1) / scale};
  return orient(read_channels(all, scale, channels, workspace), orientation_, workspace.oriented);
}

}  // namespace millrace::decode::detail
