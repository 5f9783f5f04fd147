// VideoDecoder: a part of a film, MP4 or WebM, as a fixed number of pictures of one size.
//
//   const VideoDecoder decoder({.frames = 16, .size = {112, 112}, .rate = 8});
//   std::vector<std::byte> slot(decoder.output().num_bytes());
//   const std::int64_t length = decoder.decode(mp4, id, slot);  // of 16
//
// FFmpeg's libraries read it (libmillrace_video.so, a module that the first decoder loads), from
// memory alone: no protocol, no playlist, no other file. Each decoder of a film runs in the thread
// that asks for it. Decoding begins at the last key frame before the part.
//
// Threads: const members may be called from many threads at once; no bit depends on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/array.h"
#include "decode/clip_place.h"
#include "decode/extent.h"
#include "decode/sample_id.h"
#include "io/bytes.h"

namespace millrace::decode {

/// Upper bounds for what a film may claim, and cost.
struct VideoLimits {
  /// Height times width of a picture.
  std::int64_t max_pixels = std::int64_t{16} << 20;
  /// Pictures that are decoded for one part, most of them only for those that follow.
  std::int64_t max_decoded = 10'000;
};

struct VideoOptions {
  std::int64_t frames = 0;
  /// Of each picture; proportions are not kept.
  Extent size = {};
  /// Pictures a second, of which each is what the film shows then; 0: those of the film.
  double rate = 0;
  ClipPlace place = ClipPlace::kRandom;
  VideoLimits limits = {};
};

class FilmLibrary;

class VideoDecoder {
 public:
  /// Throws: InvalidArgument; Unsupported if the build has no FFmpeg, or it cannot be loaded.
  explicit VideoDecoder(const VideoOptions& options);

  /// uint8, (frames, height, width, 3), RGB.
  ArraySpec output() const;

  /// Fills `slot`: a shorter film begins at the front, and zeros are behind it. Returns how many of
  /// the pictures are the film's. Throws: Corrupt, Truncated; Unsupported for another format or
  /// coding, and for a film that does not say how long it is; Exhausted beyond a limit.
  std::int64_t decode(const io::Bytes& encoded, const SampleId& id,
                      std::span<std::byte> slot) const;

 private:
  VideoOptions options_;
  const FilmLibrary* library_;
};

}  // namespace millrace::decode
