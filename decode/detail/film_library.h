// FilmLibrary: what the module libmillrace_video.so exports: FFmpeg's libraries.
//
// Threads: const members from many threads at once; a FilmFile one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "decode/video.h"

namespace millrace::decode {

struct FilmFormat {
  double seconds = 0;  ///< 0: it does not say
  double rate = 0;     ///< pictures a second; 0: it does not say
};

class FilmFile {
 public:
  virtual ~FilmFile() = default;
  virtual FilmFormat format() const = 0;
  /// Fills `pictures`, (times, height, width, 3), with what the film shows at each of the times, in
  /// seconds from its begin, ascending. Throws: Corrupt, Truncated, Exhausted.
  virtual void read(std::span<const double> times, const Extent& size,
                    std::span<std::byte> pictures) = 0;
};

enum class FilmContainer { kMp4, kWebm };

class FilmLibrary {
 public:
  virtual ~FilmLibrary() = default;
  /// Lifetime: `encoded` outlives the file. Throws: Corrupt, Unsupported, Exhausted.
  virtual std::unique_ptr<FilmFile> open(std::span<const std::byte> encoded,
                                         FilmContainer container,
                                         const VideoLimits& limits) const = 0;
};

inline constexpr const char* kFilmModuleEntry = "millrace_film_library";
using FilmModuleEntry = const FilmLibrary*();

}  // namespace millrace::decode
