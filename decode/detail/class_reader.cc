#include "decode/detail/class_reader.h"

#include <fmt/format.h>

#include "decode/detail/pixels.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr std::int64_t kMaxLabel = 65535;
// The code of colours whose label is `ignore`: the same as padding.
constexpr std::uint32_t kIgnored = 0xFFFFFFFFU;

std::uint32_t packed(const std::uint8_t* rgb) {
  return std::uint32_t{rgb[0]} << 16 | std::uint32_t{rgb[1]} << 8 | rgb[2];
}

std::string place_text(const Box& box, std::size_t at) {
  const auto width = static_cast<std::size_t>(box.width);
  return fmt::format("row {}, column {}", static_cast<std::size_t>(box.y) + at / width,
                     static_cast<std::size_t>(box.x) + at % width);
}

void put(std::uint32_t label, std::uint8_t* out) {
  const std::uint32_t code = label + 1;  // kIgnored becomes 0
  out[0] = static_cast<std::uint8_t>(code);
  out[1] = static_cast<std::uint8_t>(code >> 8);
  out[2] = static_cast<std::uint8_t>(code >> 16);
}

}  // namespace

ClassReader::ClassReader(const ClassMask& mask, std::string_view what) : mask_(mask), what_(what) {
  require(mask.ignore >= -1 && mask.ignore <= kMaxLabel && mask.classes >= 0 &&
              mask.classes <= kMaxLabel + 1,
          "a mask's classes are 0 to 65535, and its ignored number -1 to 65535");
  for (const ClassColour& colour : mask.colours) {
    const bool ignored = colour.label == mask.ignore;
    require(ignored || (colour.label >= 0 && colour.label <= kMaxLabel),
            "a colour's class must be 0 to 65535");
    const auto label = ignored ? kIgnored : static_cast<std::uint32_t>(colour.label);
    const auto [entry, added] = labels_.emplace(packed(colour.rgb.data()), label);
    require(added || entry->second == label,
            fmt::format("the colour {} {} {} has two classes", colour.rgb[0], colour.rgb[1],
                        colour.rgb[2]));
  }
}

void ClassReader::check(std::uint32_t label, const Box& box, std::size_t at) const {
  if (mask_.classes == 0 || label == kIgnored || label < mask_.classes || label == mask_.ignore)
    return;
  throw Error(
      ErrorCode::kCorrupt,
      fmt::format("the mask holds {} at {}: there are {} classes{}", label, place_text(box, at),
                  mask_.classes,
                  mask_.ignore < 0 ? "" : fmt::format(", and {} is ignored", mask_.ignore)));
}

std::uint32_t ClassReader::label_of(const std::uint8_t* rgb, const Box& box, std::size_t at) const {
  const auto found = labels_.find(packed(rgb));
  if (found != labels_.end()) return found->second;
  throw Error(ErrorCode::kCorrupt,
              fmt::format("the mask has the colour {} {} {} at {}, which is not in the table",
                          rgb[0], rgb[1], rgb[2], place_text(box, at)));
}

// Masks consist of areas of one value: values are looked up and checked only where they change.
template <int kBytes>
void ClassReader::convert(const PixelView& stored, std::uint8_t* out) const {
  const auto width = static_cast<std::size_t>(stored.box.width);
  std::uint32_t last = 0;
  std::uint32_t label = kIgnored;
  bool any = false;
  for (int y = 0; y < stored.box.height; ++y) {
    const std::uint8_t* in = stored.row(y);
    for (std::size_t x = 0; x < width; ++x, in += kBytes, out += kChannels) {
      std::uint32_t value = in[0];
      for (int i = 1; i < kBytes; ++i) value = value << 8 | in[i];
      if (!any || value != last) {
        const std::size_t at = static_cast<std::size_t>(y) * width + x;
        label = kBytes == 3 ? label_of(in, stored.box, at) : value;
        check(label, stored.box, at);
        last = value;
        any = true;
      }
      put(label, out);
    }
  }
}

PixelView ClassReader::read(const ImageSource& source, const Box& box,
                            SourceWorkspace& workspace) const {
  if (source.header().lossy) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a {} in a JPEG or another lossy file: its values are not those that "
                            "were written; PNG keeps them",
                            what_));
  }
  if (labels_.empty() && !source.header().numbers) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the {} is a colour picture: {}", what_,
                            what_ == "mask" ? "a table must say which class each colour is"
                                            : "it must be grey"));
  }
  const PixelView stored = labels_.empty() ? source.read_numbers(box, workspace)
                                           : source.read(box, 1, kChannels, workspace);
  const std::size_t stride = static_cast<std::size_t>(stored.box.width) * kChannels;
  std::uint8_t* out =
      reserve_pixels(workspace.classes, stride * static_cast<std::size_t>(stored.box.height));
  if (stored.channels == 1) convert<1>(stored, out);
  if (stored.channels == 2) convert<2>(stored, out);
  if (stored.channels == 3) convert<3>(stored, out);
  return {.data = out, .stride = stride, .box = stored.box, .channels = kChannels};
}

}  // namespace millrace::decode::detail

namespace millrace::decode {

ClassImage decode_classes(const io::Bytes& encoded, const ClassMask& mask, const Limits& limits) {
  const detail::ClassReader reader(mask);
  const detail::ImageSource source(encoded.span(),
                                   {.header = {.limits = limits, .numbers = reader.numbers()}});
  detail::SourceWorkspace workspace;
  const PixelView view = reader.read(source, {0, 0, source.width(), source.height()}, workspace);
  ClassImage image{.height = source.height(), .width = source.width(), .labels = {}};
  const auto width = static_cast<std::size_t>(image.width);
  image.labels.resize(width * static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) {
    const std::size_t first = static_cast<std::size_t>(y) * width;
    reader.write(view.row(y), std::span<std::int64_t>(image.labels).subspan(first, width));
  }
  return image;
}

}  // namespace millrace::decode
