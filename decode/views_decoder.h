// ViewsDecoder: several views of one picture (multi-crop), each with transforms, size and dtype of
// its own, from one decode.
//
// The picture is decoded whole, at full size, whatever the views take of it: so the bits of a view
// are its own, and do not depend on which others there are.
//
//   ViewsDecoder decoder({{.transforms = {RandomResizedCrop{.size = 224}}},
//                         {.transforms = {RandomResizedCrop{.size = 96, .scale = {0.05, 0.4}}}}});
//   const std::array views = {PictureView{0, global_slot}, PictureView{1, local_slot}};
//   decoder.decode(jpg, id, views);
//
// Threads: decode() may be called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/image_decoder.h"
#include "decode/sample_id.h"
#include "io/bytes.h"

namespace millrace::decode {

/// SampleId::view of the view with this number: 0 for 0, the sample's own choices.
std::uint64_t numbered_view(std::uint64_t number);

/// What keys a view, and the destination of its pixels.
struct PictureView {
  std::uint64_t view = 0;
  std::span<std::byte> slot = {};
};

class ViewsDecoder {
 public:
  /// Throws: InvalidArgument as ImageDecoder, if there is none, or if two do not decode_alike().
  explicit ViewsDecoder(const std::vector<ImageDecoderOptions>& views);
  ~ViewsDecoder();
  ViewsDecoder(ViewsDecoder&&) noexcept;
  ViewsDecoder& operator=(ViewsDecoder&&) noexcept;

  const ArraySpec& output(std::size_t view) const { return decoders_[view].output(); }

  /// Fills each view's slot; `id` is the sample's. Throws: as ImageDecoder, for damage anywhere.
  /// Requires: `views` are as many and in the order of the options; slots as for ImageDecoder.
  Tidiness decode(const io::Bytes& encoded, const SampleId& id,
                  std::span<const PictureView> views) const;

 private:
  struct Scratch;

  std::vector<ImageDecoder> decoders_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace millrace::decode
