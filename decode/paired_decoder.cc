#include "decode/paired_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "decode/image.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "io/component/component_text.h"

namespace millrace::decode {
namespace {

ImageSize size_of(const io::Bytes& encoded, const ImageDecoderOptions& options) {
  return image_size(encoded, {.apply_orientation = options.apply_orientation,
                              .limits = options.limits,
                              .tolerate_truncated = options.tolerate_truncated});
}

/// Throws: InvalidArgument for a transform that is not a member's own matter.
void check_own(const Transform& own, bool is_alone) {
  const auto step = own.make();
  const auto* pixels = dynamic_cast<const PixelStep*>(step.get());
  require(dynamic_cast<const GeometryStep*>(step.get()) == nullptr,
          "paired images share their crops, resizes and flips");
  require(is_alone || pixels == nullptr || !pixels->moves(),
          "paired images share their geometry: " + text(own) + " would move one of them alone");
}

/// Runs `work` and annotates its fault with the image's location.
template <typename Work>
void located(const PairedImage& image, const Work& work) {
  try {
    work();
  } catch (Error& error) {
    error.annotate(image.where);
    throw;
  }
}

}  // namespace

PairedDecoder::PairedDecoder(const std::vector<Transform>& geometry,
                             std::vector<ImageDecoderOptions> members)
    : members_(std::move(members)) {
  for (const Transform& transform : geometry)
    require(
        kind_of(transform) == TransformKind::kGeometry,
        "paired images share their geometry alone: " + text(transform) + " belongs to a member");
  for (ImageDecoderOptions& member : members_) {
    for (const Transform& own : member.transforms) check_own(own, members_.size() == 1);
    member.transforms.insert(member.transforms.begin(), geometry.begin(), geometry.end());
    decoders_.emplace_back(member);
  }
}

void PairedDecoder::check_sizes(std::span<const PairedImage> images) const {
  ImageSize first;
  for (std::size_t i = 0; i < images.size(); ++i) {
    located(images[i], [&] {
      const ImageSize size = size_of(images[i].encoded, members_[i]);
      if (i == 0) first = size;
      if (size == first) return;
      throw Error(
          ErrorCode::kCorrupt,
          fmt::format("paired images differ in size: {} x {} beside the first one's {} x {}",
                      size.width, size.height, first.width, first.height));
    });
  }
}

Tidiness PairedDecoder::decode(std::span<const PairedImage> images, const SampleId& id) const {
  MILLRACE_CHECK(images.size() == decoders_.size(), "an image for each member");
  check_sizes(images);
  auto tidiness = Tidiness::kTidy;
  // The same transforms, size and id make the same choices.
  for (std::size_t i = 0; i < images.size(); ++i) {
    located(images[i], [&] {
      tidiness = std::max(tidiness, decoders_[i].decode(images[i].encoded, id, images[i].slot));
    });
  }
  return tidiness;
}

}  // namespace millrace::decode
