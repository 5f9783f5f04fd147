// PictureReader: the pixels of a picture that its first stage needs, from the codec or, where they
// are kept, from a DecodedCache.
//
// Threads: read() may be called from many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "decode/decoded_cache.h"
#include "decode/detail/class_reader.h"
#include "decode/detail/image_source.h"
#include "decode/image_decoder.h"

namespace millrace::decode::detail {

class PictureReader {
 public:
  /// `classes`: of a mask, borrowed, else null. Requires: options.codecs is not null.
  PictureReader(const ImageDecoderOptions& options, const ClassReader* classes);

  int channels() const { return channels_; }
  /// At least `box` of the picture divided by `scale`. Requires: `source` is of `encoded`. Throws:
  /// as ImageSource::read(), of the box alone: what is damaged beside it is not kept. Lifetime: the
  /// cache's, and until the workspace is used again.
  PixelView read(std::span<const std::byte> encoded, const ImageSource& source, const Box& box,
                 int scale, SourceWorkspace& workspace) const;

 private:
  PixelView decode(const ImageSource& source, const Box& box, int scale,
                   SourceWorkspace& workspace) const;
  std::optional<PixelView> find(std::span<const std::byte> encoded, const ImageSource& source,
                                const Box& box, DecodedCache::Key& key,
                                SourceWorkspace& workspace) const;
  bool keep_whole(const DecodedCache::Key& key, const ImageSource& source,
                  SourceWorkspace& workspace, PixelView& whole) const;

  int channels_;
  bool tolerate_truncated_;
  const ClassReader* classes_;
  std::shared_ptr<DecodedCache> cache_;
  std::shared_ptr<PictureMeter> meter_;
  std::uint32_t form_ = 0;
};

}  // namespace millrace::decode::detail
