// HeaderReader: the headers of a tar, read from a Tape.
//
// Plain headers, which are nearly all, are read here, in a third of libarchive's time. For any
// other libarchive is fed one block at a time, and never holds more than the header it is looking
// at: payloads are taken from the tape beside it or skipped there, and it is told that they were
// when it wants to skip to the next header.
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
  std::uint32_t crc32 = 0;   ///< of all blocks, when asked for
  bool plain = false;        ///< read without libarchive: a regular file, and nothing odd
  bool regular = false;      ///< as libarchive sees it
  bool folder = false;       ///< likewise
  std::string link;          ///< what a hard link leads to
  std::string warning;       ///< libarchive's, when it had to guess
};

class HeaderReader {
 public:
  /// Reads the archive that begins where `tape` stands; `tape` is borrowed.
  /// `checksums`: fills in Header::crc32.
  HeaderReader(Tape& tape, bool checksums);
  ~HeaderReader();
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  /// The next header, whose blocks are then tape.region() unless it is plain. False at the tape's
  /// end (the region is empty) and at a zero block (the region is that and the block behind it).
  /// Throws: Truncated, Corrupt, and what the tape throws.
  bool next(Header& header);
  /// Says that the payload was read from the tape, all of it.
  void took_payload();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds::detail
