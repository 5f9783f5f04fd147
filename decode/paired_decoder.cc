#include "decode/paired_decoder.h"

#include <fmt/format.h>

#include <utility>

#include "decode/image.h"
#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

bool is_geometric(const Transform& transform) {
  return !std::holds_alternative<ColorJitter>(transform) &&
         !std::holds_alternative<Normalize>(transform);
}

ImageSize size_of(const io::Bytes& encoded, const ImageDecoderOptions& options) {
  return image_size(encoded, {.apply_orientation = options.apply_orientation,
                              .limits = options.limits,
                              .tolerate_truncated = options.tolerate_truncated});
}

}  // namespace

PairedDecoder::PairedDecoder(const std::vector<Transform>& geometry,
                             std::vector<ImageDecoderOptions> members)
    : members_(std::move(members)) {
  for (ImageDecoderOptions& member : members_) {
    for (const Transform& own : member.transforms) {
      if (!is_geometric(own)) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "paired images share their crops, resizes and flips");
    }
    member.transforms.insert(member.transforms.begin(), geometry.begin(), geometry.end());
    decoders_.emplace_back(member);
  }
}

void PairedDecoder::decode(std::span<const io::Bytes> encoded, const SampleId& id,
                           std::span<const std::span<std::byte>> slots) const {
  MILLRACE_CHECK(encoded.size() == decoders_.size() && slots.size() == decoders_.size(),
                 "an image and a slot for each member");
  ImageSize first;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const ImageSize size = size_of(encoded[i], members_[i]);
    if (i == 0) first = size;
    if (size == first) continue;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("paired images differ in size: {} x {} and {} x {}", first.width,
                            first.height, size.width, size.height));
  }
  // The same transforms, size and id make the same choices.
  for (std::size_t i = 0; i < encoded.size(); ++i) decoders_[i].decode(encoded[i], id, slots[i]);
}

}  // namespace millrace::decode
