#include "decode/views_decoder.h"

#include <fmt/format.h>

#include <string>

#include "decode/detail/workspace_pool.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/hash.h"

namespace millrace::decode {

std::uint64_t numbered_view(std::uint64_t number) {
  if (number == 0) return 0;
  const std::string name = fmt::format("view {}", number);
  const auto bytes = std::as_bytes(std::span(name));
  return (std::uint64_t{crc32c(bytes)} << 32U) | crc32(bytes);
}

/// The whole pictures.
struct ViewsDecoder::Scratch {
  detail::WorkspacePool pool;
};

ViewsDecoder::ViewsDecoder(const std::vector<ImageDecoderOptions>& views)
    : scratch_(std::make_unique<Scratch>()) {
  require(!views.empty(), "a picture needs at least one view");
  for (const ImageDecoderOptions& view : views) {
    require(views.size() == 1 || decode_alike(views.front(), view),
            "views of one decode have the same channels, limits and reading of the file");
    require(!view.values, "grey values have no numbered views");
    decoders_.emplace_back(view);
  }
}

ViewsDecoder::~ViewsDecoder() = default;
ViewsDecoder::ViewsDecoder(ViewsDecoder&&) noexcept = default;
ViewsDecoder& ViewsDecoder::operator=(ViewsDecoder&&) noexcept = default;

Tidiness ViewsDecoder::decode(const io::Bytes& encoded, const SampleId& id,
                              std::span<const PictureView> views) const {
  MILLRACE_CHECK(views.size() == decoders_.size(), "a slot for each view");
  const auto lease = scratch_->pool.acquire();
  const WholePicture whole = decoders_.front().read_whole(encoded, (*lease).source);
  for (std::size_t i = 0; i < views.size(); ++i) {
    SampleId own = id;
    own.view = views[i].view;
    decoders_[i].decode_whole(whole, own, views[i].slot);
  }
  return whole.tidiness;
}

}  // namespace millrace::decode
