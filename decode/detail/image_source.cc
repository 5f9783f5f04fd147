#include "decode/detail/image_source.h"

#include <utility>

#include "decode/detail/orientation.h"
#include "decode/sniff.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

std::variant<JpegHeader, PngHeader, PnmHeader> read_header(std::span<const std::byte> data,
                                                           const SourceOptions& options) {
  switch (sniff_image(data)) {
    case ImageFormat::kJpeg:
      return read_jpeg_header(data, options.limits, options.tolerate_truncated);
    case ImageFormat::kPng:
      return read_png_header(data, options.limits, options.numbers);
    case ImageFormat::kPnm:
      return read_pnm_header(data, options.limits, options.numbers == Numbers::kAll);
    case ImageFormat::kUnknown:
      break;
  }
  throw Error(ErrorCode::kUnsupported,
              "not an image that can be decoded: it looks like " + describe_content(data));
}

int stored_channels(const JpegHeader& header) { return header.components == 1 ? 1 : 3; }
int stored_channels(const PngHeader& header) { return header.channels; }
int stored_channels(const PnmHeader& header) { return header.channels; }

}  // namespace

ImageSource::ImageSource(std::span<const std::byte> data, const SourceOptions& options)
    : data_(data), options_(options), header_(read_header(data, options)) {
  std::visit(
      [this](const auto& header) {
        width_ = header.width;
        height_ = header.height;
        channels_ = stored_channels(header);
      },
      header_);
  const auto* jpeg = std::get_if<JpegHeader>(&header_);
  if (jpeg != nullptr && options.apply_orientation) orientation_ = jpeg->orientation;
  if (swaps_axes(orientation_)) std::swap(width_, height_);
}

bool ImageSource::holds_numbers() const {
  const auto* png = std::get_if<PngHeader>(&header_);
  const auto* pnm = std::get_if<PnmHeader>(&header_);
  return (png != nullptr && png->numbers) || (pnm != nullptr && pnm->numbers);
}

PixelView ImageSource::read_numbers(const Box& box, CodecWorkspace& workspace) const {
  return read_stored(box, 1, 1, workspace);
}

PixelView ImageSource::read_jpeg(const JpegHeader& header, const Box& box, int scale, int channels,
                                 CodecWorkspace& workspace) const {
  if (!workspace.jpeg) workspace.jpeg = std::make_unique<JpegReader>();
  workspace.untidy = header.untidy;
  const PixelView view = workspace.jpeg->read(data_, header,
                                              {.box = box,
                                               .scale = scale,
                                               .channels = channels == 1 ? 1 : 3,
                                               .tolerate_truncated = options_.tolerate_truncated},
                                              workspace.pixels);
  const std::string_view warning = workspace.jpeg->untidy();
  if (!warning.empty()) workspace.untidy.assign("JPEG: ").append(warning);
  return view;
}

PixelView ImageSource::read_stored(const Box& box, int scale, int channels,
                                   CodecWorkspace& workspace) const {
  workspace.untidy.clear();
  if (const auto* jpeg = std::get_if<JpegHeader>(&header_))
    return read_jpeg(*jpeg, box, scale, channels, workspace);
  if (const auto* png = std::get_if<PngHeader>(&header_)) {
    const int readable = channels == 1 && png->channels != 1 ? 3 : channels;
    workspace.untidy = png->untidy;
    return read_png(data_, *png, box.y, box.height, readable, workspace.pixels, workspace.untidy);
  }
  return read_pnm(data_, std::get<PnmHeader>(header_), workspace.pixels);
}

PixelView ImageSource::read_channels(const Box& box, int scale, int channels,
                                     CodecWorkspace& workspace) const {
  const PixelView stored = read_stored(box, scale, channels, workspace);
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
                            CodecWorkspace& workspace) const {
  if (orientation_ == 1) return read_channels(box, scale, channels, workspace);
  // Turned pictures are few: they are decoded whole and then turned.
  const auto& header = std::get<JpegHeader>(header_);
  const Box all{0, 0, (header.width + scale - 1) / scale, (header.height + scale - 1) / scale};
  return orient(read_channels(all, scale, channels, workspace), orientation_, workspace.oriented);
}

}  // namespace millrace::decode::detail
