// SoundLibrary: what the module libmillrace_sound.so exports: libsndfile and libsamplerate.
//
// Threads: const members from many threads at once; a SoundFile one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace millrace::decode {

struct SoundFormat {
  std::int64_t frames = 0;  ///< samples of each channel
  int channels = 0;
  int rate = 0;
};

class SoundFile {
 public:
  virtual ~SoundFile() = default;
  virtual SoundFormat format() const = 0;
  /// Fills `frames`, (frames, channels), from the frame `first` on. Throws: Corrupt, Truncated.
  virtual void read(std::int64_t first, std::span<float> frames) = 0;
};

class SoundLibrary {
 public:
  virtual ~SoundLibrary() = default;
  /// Lifetime: `encoded` outlives the file. Throws: Corrupt, Unsupported.
  virtual std::unique_ptr<SoundFile> open(std::span<const std::byte> encoded) const = 0;
  /// Both (frames, channels). `ratio`: frames of `to` for one of `from`. Zeros where `from` gives
  /// no more. Throws: Unsupported for a ratio beyond 256.
  virtual void resample(std::span<const float> from, int channels, double ratio,
                        std::span<float> to) const = 0;
};

inline constexpr const char* kSoundModuleEntry = "millrace_sound_library";
using SoundModuleEntry = const SoundLibrary*();

}  // namespace millrace::decode
