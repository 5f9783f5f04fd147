// AudioDecoder: a part of a sound, WAV or FLAC, at one rate and in one length.
//
//   const AudioDecoder decoder({.seconds = 5, .rate = 16'000});
//   std::vector<std::byte> slot(decoder.output().num_bytes());
//   const std::int64_t length = decoder.decode(flac, id, slot);  // of 80,000
//
// libsndfile reads the part and libsamplerate resamples it. They are a module of its own
// (libmillrace_sound.so), loaded by the first decoder. A part is what the whole sound would have
// there if it were resampled: it begins where a sample of either rate falls on one of the other
// (every 10 ms for 44.1 and 16 kHz), and what lies around it is read, too.
//
// Threads: const members may be called from many threads at once; no bit depends on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/array.h"
#include "decode/clip_place.h"
#include "decode/sample_id.h"
#include "io/bytes.h"

namespace millrace::decode {

/// Upper bounds for what a sound may claim.
struct AudioLimits {
  int max_channels = 64;
  /// Samples a second.
  int max_rate = 768'000;
  /// Of the part that is read, all channels as float32.
  std::int64_t max_bytes = std::int64_t{256} << 20;
};

struct AudioOptions {
  /// Length of the part, at least one sample and at most 2^26.
  double seconds = 0;
  /// Samples a second of the result, 1 to 768,000.
  int rate = 16'000;
  /// 1: the mean of all channels; 2: as they are, or one twice.
  int channels = 1;
  ClipPlace place = ClipPlace::kRandom;
  AudioLimits limits = {};
};

class SoundLibrary;

class AudioDecoder {
 public:
  /// Throws: InvalidArgument; Unsupported if the build has no libsndfile, or it cannot be loaded.
  explicit AudioDecoder(const AudioOptions& options);

  /// float32, (channels, samples), from -1 to 1 unless a file of floats has more.
  ArraySpec output() const;

  /// Fills `slot`: a shorter sound begins at the front, and zeros are behind it. Returns its length
  /// in samples. Throws: Corrupt, Truncated; Unsupported for another format, and for a sound of
  /// more than two channels unless one is wanted; Exhausted beyond a limit.
  std::int64_t decode(const io::Bytes& encoded, const SampleId& id,
                      std::span<std::byte> slot) const;

 private:
  AudioOptions options_;
  const SoundLibrary* library_;
};

}  // namespace millrace::decode
