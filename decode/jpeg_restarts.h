// add_restarts: a JPEG re-coded without loss so that a crop of it can be decoded without the rest.
//
//   const io::Bytes file = decode::add_restarts(photo);    // about 1 % longer, the same pixels
//
// The result is baseline, with a restart marker about every 128 pixels and at the same places in
// each row of MCUs: what the JPEG codec needs to skip what lies above and beside a crop. Decoders
// that know nothing of it read it like any other JPEG.
//
// Threads: may be called from many threads at once.
#pragma once

#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

struct RestartOptions {
  /// The distance of two markers that is aimed at, in pixels. A divisor of the MCUs in a row is
  /// chosen: the whole row where it has none near enough.
  int pixels = 128;
  Limits limits = {};
};

/// `jpeg` with other Huffman codes and restart markers. Its coefficients, and with them every pixel
/// at every size, are kept, as are all application segments and comments, in their order; a
/// progressive file becomes a baseline one. What follows the end marker is left out. The same file
/// gives the same bytes, and its result gives itself.
/// Throws: Unsupported (not a JPEG; 12 bits, lossless, hierarchical or arithmetic coding; a
/// progressive file without all of its scans, whose decoders guess the rest; more blocks in an MCU
/// than one scan may have), Corrupt, Truncated (anything libjpeg warns of, too), Exhausted (a
/// limit); std::bad_alloc.
io::Bytes add_restarts(const io::Bytes& jpeg, const RestartOptions& options = {});

}  // namespace millrace::decode
