// PictureFacts: what a picture says by itself: its file's digest, a coarse copy to compare it with
// others by, its brightness, contrast and sharpness.
//
// Two pictures look alike if their coarse copies do: of one that was recompressed, or resized, the
// copy hardly changes; of one that was cropped or mirrored, it does.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::tools {

struct PictureFacts {
  /// Cells of the coarse copy, across and down.
  static constexpr int kCells = 9;

  decode::ImageSize size = {};
  std::array<std::uint64_t, 2> digest = {};  ///< the file's: 128 bits of its SHA-256
  /// Mean grey levels, row by row.
  std::array<std::uint8_t, kCells* kCells> coarse = {};
  /// Of the coarse copy: whether each cell is darker than its right neighbour, and than the lower
  /// one (a difference hash).
  std::array<std::uint64_t, 2> gradients = {};
  float brightness = 0;  ///< mean grey level, 0 to 255
  float contrast = 0;    ///< standard deviation of the grey levels
  /// Variance of the Laplacian over that of the grey levels, at 256 pixels' width or height at
  /// most. Comparable within a set only.
  float sharpness = 0;
};

/// `encoded`: the file that `image` was decoded from.
PictureFacts facts_of(const io::Bytes& encoded, const decode::Image& image);

bool look_alike(const PictureFacts& one, const PictureFacts& other);
/// Bits of `gradients` in which pictures that look alike differ at most.
inline constexpr int kAlikeBits = 6;

/// `image` with sides of `most` pixels at most, each pixel the mean of what it covers.
decode::Image shrunk(const decode::Image& image, int most);

}  // namespace millrace::tools
