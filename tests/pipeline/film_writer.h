// Films whose pictures are known, written by FFmpeg's own encoders.
#pragma once

#include <string>

namespace millrace::testing {

struct FilmOptions {
  std::string encoder = "mpeg4";
  std::string container = "mp4";
  int frames = 40;
  int rate = 10;  ///< pictures a second
  int key_frame_each = 12;
};

constexpr int kFilmWidth = 96;
constexpr int kFilmHeight = 64;

/// What the left half of picture `number` holds, in RGB; the right half is white.
int film_level(int number);

/// Whether this FFmpeg has the encoder.
bool has_encoder(const std::string& encoder);

/// The file. Fails the test if it cannot be written.
std::string film_file(const FilmOptions& options);

}  // namespace millrace::testing
