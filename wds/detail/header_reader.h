// HeaderReader: reads the headers of a tar from a Tape.
//
// Plain headers, which are nearly all, are parsed here, in a third of libarchive's time. Any other
// header is fed to libarchive one block at a time, so that it never reads past it. Payloads do not
// pass through libarchive: they are read from the tape or skipped on it, and libarchive's own skip
// request is then acknowledged without moving the tape.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "wds/detail/tape.h"

namespace millrace::wds::detail {

struct Header {
  std::string name;
  std::uint64_t offset = 0;  ///< of the first block, on the tape
  std::uint64_t size = 0;    ///< payload bytes that follow on the tape
  std::uint32_t crc32 = 0;   ///< of all header blocks, if `checksums`
  bool plain = false;        ///< parsed without libarchive: a regular file
  bool regular = false;      ///< a regular file, as libarchive sees it
  bool folder = false;       ///< a folder, likewise
  std::string link;          ///< target of a hard link; else empty
  std::string warning;       ///< libarchive's warning; only if not `plain`
};

class HeaderReader {
 public:
  /// Reads the archive that begins at the tape's position; `tape` is borrowed. `checksums`: fills
  /// in Header::crc32.
  HeaderReader(Tape& tape, bool checksums);
  ~HeaderReader();
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  /// Skips what is left of the last member and reads the next header, whose blocks are then
  /// tape.region() unless it is plain. Returns false at the tape's end (the region is empty) and at
  /// a zero block (the region is that and the block after it). Throws: Truncated, Corrupt, as the
  /// tape.
  bool next(Header& header);
  /// Tells the reader that the whole payload was read from the tape.
  void took_payload();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds::detail
