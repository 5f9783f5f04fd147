// HeaderReader: libarchive reads tar headers from a Tape, fed one block at a time.
//
// libarchive never holds more than the header it is looking at: payloads are taken from the tape
// beside it, and it is told of them when it wants to skip to the next header.
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
  bool regular = false;      ///< as libarchive sees it
  std::string warning;       ///< libarchive's, when it had to guess
};

class HeaderReader {
 public:
  /// Reads the archive that begins where `tape` stands; `tape` is borrowed.
  explicit HeaderReader(Tape& tape);
  ~HeaderReader();
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  /// The next header, whose blocks are then tape.region(); false where libarchive sees no more: at
  /// a zero block or the tape's end. Throws: Truncated, Corrupt, and what the tape throws.
  bool next(Header& header);
  /// Says that `size` bytes of the payload were read from the tape.
  void took(std::uint64_t size);
  /// Whether a header was ever read.
  bool any() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds::detail
